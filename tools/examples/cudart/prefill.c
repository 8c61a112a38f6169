/* kda from C, beside the CUDA runtime: one prefill in f32, held against the recurrence in double
   that it computes.  Where there is no device the plan is compiled for an H200 and not run. */
#include <cuda_runtime_api.h>
#include <kda/kda.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 300, H = 2, K = 64, V = 32 };

static void must_run(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

static void must(kda_code code) {
  if (code == KDA_OK) return;
  fprintf(stderr, "%s: %s\n", kda_code_name(code), kda_last_message());
  exit(1);
}

/* Uniform in [low, high), the same in every run. */
static float draw(float low, float high) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return low + (high - low) * (float)(state >> 8) / (float)(1 << 24);
}

static float q[T][H][K], k[T][H][K], v[T][H][V], g[T][H][K], beta[T][H], o[T][H][V];

static void fill(void) {
  for (int t = 0; t < T; ++t) {
    for (int h = 0; h < H; ++h) {
      for (int c = 0; c < K; ++c) q[t][h][c] = draw(-1, 1);
      for (int c = 0; c < K; ++c) k[t][h][c] = draw(-1, 1) / 8; /* a length below 1 */
      for (int c = 0; c < V; ++c) v[t][h][c] = draw(-1, 1);
      for (int c = 0; c < K; ++c) g[t][h][c] = draw(-0.5f, 0);
      beta[t][h] = draw(0, 1);
    }
  }
}

/* The largest distance of o from the recurrence, token by token. */
static double error_of_o(void) {
  double worst = 0;
  for (int h = 0; h < H; ++h) {
    static double S[K][V];
    for (int c = 0; c < K; ++c)
      for (int d = 0; d < V; ++d) S[c][d] = 0;
    for (int t = 0; t < T; ++t) {
      for (int d = 0; d < V; ++d) {
        double predicted = 0, out = 0;
        for (int c = 0; c < K; ++c) S[c][d] *= exp(g[t][h][c]);
        for (int c = 0; c < K; ++c) predicted += S[c][d] * k[t][h][c];
        const double step = beta[t][h] * (v[t][h][d] - predicted);
        for (int c = 0; c < K; ++c) S[c][d] += k[t][h][c] * step;
        for (int c = 0; c < K; ++c) out += S[c][d] * q[t][h][c];
        worst = fmax(worst, fabs(out / sqrt(K) - o[t][h][d]));
      }
    }
  }
  return worst;
}

/* On the device, with these bytes. */
static void* uploaded(const void* host, size_t bytes) {
  void* device = NULL;
  must_run(cudaMalloc(&device, bytes));
  must_run(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  return device;
}

int main(void) {
  int devices = 0;
  const int present = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;

  kda_problem problem;
  kda_problem_init(&problem);
  problem.heads = problem.value_heads = H;
  problem.key_dim = K;
  problem.value_dim = V;
  problem.max_tokens = T;
  problem.qkv_type = problem.gate_type = problem.beta_type = KDA_F32;
  problem.gate = KDA_GATE_LOG_DECAY;
  problem.beta_is_logit = problem.l2norm_qk = 0;

  kda_options options;
  kda_options_init(&options);
  if (!present) options.target = "h200";

  kda_plan* plan = NULL;
  must(kda_plan_make(&problem, &options, &plan));
  printf("%s", kda_plan_describe(plan));
  if (!present) {
    printf("Not run, only compiled: there is no device.\n");
    kda_plan_destroy(plan);
    return 0;
  }

  fill();
  cudaStream_t stream = NULL;
  must_run(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* workspace = NULL;
  must_run(cudaMalloc(&workspace, kda_plan_workspace_bytes(plan)));

  kda_forward forward;
  kda_forward_init(&forward);
  forward.tokens = T;
  forward.q = uploaded(q, sizeof q);
  forward.k = uploaded(k, sizeof k);
  forward.v = uploaded(v, sizeof v);
  forward.g = uploaded(g, sizeof g);
  forward.beta = uploaded(beta, sizeof beta);
  forward.o = uploaded(o, sizeof o);
  must(kda_plan_run(plan, &forward, workspace, kda_plan_workspace_bytes(plan), stream));
  must_run(cudaMemcpyAsync(o, forward.o, sizeof o, cudaMemcpyDeviceToHost, stream));
  must_run(cudaStreamSynchronize(stream));
  kda_plan_destroy(plan);

  const double error = error_of_o();
  const int good = error < 1e-4;
  printf("largest error of o: %.1e: %s\n", error, good ? "good" : "WRONG");
  return good ? 0 : 1;
}
