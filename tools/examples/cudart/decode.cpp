// What an inference engine does with kda beside the CUDA runtime: prefill a prompt, then decode
// from its state token by token, in place; the outputs agree with one run over all tokens.  Memory
// and streams are the runtime's.  Where there is no device the plans are compiled for an H200 and
// not run.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <kda/kda.hpp>
#include <random>
#include <utility>
#include <vector>

namespace {

constexpr int kHeads = 4, kValueHeads = 8, kChannels = 128;
constexpr std::int64_t kPrompt = 500, kTokens = 516;

void must(const kda::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", kda::name_of(status.code()), status.message().c_str());
  std::exit(1);
}

void must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Device memory, as bf16 [tokens, heads, channels].
class Tensor {
 public:
  Tensor(std::int64_t tokens, int heads, int channels) : row_(std::size_t(heads) * channels) {
    must(cudaMalloc(&data_, tokens * row_ * sizeof(std::uint16_t)));
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { cudaFree(data_); }

  void* at(std::int64_t token) const { return static_cast<std::uint16_t*>(data_) + token * row_; }

  void fill(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> host(kTokens * row_);
    for (std::uint16_t& element : host) {
      const float value = normal(random);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      element = static_cast<std::uint16_t>(bits >> 16);  // a bf16 is an f32's upper half
    }
    must(cudaMemcpy(data_, host.data(), host.size() * sizeof host[0], cudaMemcpyHostToDevice));
  }

  std::vector<float> host() const {
    std::vector<std::uint16_t> upper(kTokens * row_);
    must(cudaMemcpy(upper.data(), data_, upper.size() * sizeof upper[0], cudaMemcpyDeviceToHost));
    std::vector<float> values;
    for (const std::uint16_t half : upper) {
      const std::uint32_t bits = std::uint32_t{half} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      values.push_back(value);
    }
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t row_;
};

// One layer's plans: for long runs and for single tokens.
class Layer {
 public:
  explicit Layer(const kda::Options& options) {
    kda::Problem prefill{.heads = kHeads,
                         .value_heads = kValueHeads,
                         .key_dim = kChannels,
                         .value_dim = kChannels,
                         .max_tokens = kTokens,
                         .initial_state = true,
                         .final_state = true};
    kda::Problem decode = prefill;
    decode.max_tokens = 1;
    for (kda::Result<kda::Plan>& made :
         kda::Plan::make_all(std::vector{prefill, decode}, options)) {
      must(made.status());
      plans_.push_back(*std::move(made));
    }
  }

  const kda::Plan& plan_of(std::int64_t tokens) const { return plans_[tokens == 1 ? 1 : 0]; }

 private:
  std::vector<kda::Plan> plans_;
};

struct Tensors {
  Tensor q{kTokens, kHeads, kChannels}, k{kTokens, kHeads, kChannels};
  Tensor v{kTokens, kValueHeads, kChannels}, g{kTokens, kValueHeads, kChannels};
  Tensor beta{kTokens, kValueHeads, 1}, o{kTokens, kValueHeads, kChannels};
  void* state = nullptr;  // f32 [HV, V, K]
  void* workspace = nullptr;

  static constexpr std::size_t kStateBytes = sizeof(float) * kValueHeads * kChannels * kChannels;

  explicit Tensors(std::size_t workspace_bytes) {
    q.fill(1), k.fill(2), v.fill(3), g.fill(4), beta.fill(5);
    must(cudaMalloc(&state, kStateBytes));
    must(cudaMalloc(&workspace, workspace_bytes));
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;
  ~Tensors() {
    cudaFree(state);
    cudaFree(workspace);
  }

  // Enqueues tokens [from, to); the state is read and written in place.
  void run(const Layer& layer, std::int64_t from, std::int64_t to, cudaStream_t stream) const {
    const kda::Plan& plan = layer.plan_of(to - from);
    const kda::Forward forward{.tokens = to - from,
                               .q = q.at(from),
                               .k = k.at(from),
                               .v = v.at(from),
                               .g = g.at(from),
                               .beta = beta.at(from),
                               .initial_state = state,
                               .o = o.at(from),
                               .final_state = state};
    must(plan.run(forward, workspace, plan.workspace_bytes(), stream));
  }
};

double distance(const std::vector<float>& x, const std::vector<float>& y) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += std::pow(double{x[i]} - y[i], 2);
    size += std::pow(double{y[i]}, 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    const Layer layer({.target = "h200"});
    std::printf("%s\nNot run, only compiled: there is no device.\n",
                layer.plan_of(kTokens).describe().c_str());
    return 0;
  }
  const Layer layer({});
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const Tensors tensors(
      std::max(layer.plan_of(kTokens).workspace_bytes(), layer.plan_of(1).workspace_bytes()));

  must(cudaMemsetAsync(tensors.state, 0, Tensors::kStateBytes, stream));
  tensors.run(layer, 0, kTokens, stream);
  must(cudaStreamSynchronize(stream));
  const std::vector<float> whole = tensors.o.host();

  must(cudaMemsetAsync(tensors.state, 0, Tensors::kStateBytes, stream));
  tensors.run(layer, 0, kPrompt, stream);
  for (std::int64_t token = kPrompt; token < kTokens; ++token) {
    tensors.run(layer, token, token + 1, stream);
  }
  must(cudaStreamSynchronize(stream));
  must(cudaStreamDestroy(stream));

  const double apart = distance(tensors.o.host(), whole);
  const bool good = apart < 1e-2;  // two bf16 computations of the same outputs
  std::printf("%lld tokens decoded after a prompt of %lld: rel-L2 to one run %.1e: %s\n",
              static_cast<long long>(kTokens - kPrompt), static_cast<long long>(kPrompt), apart,
              good ? "good" : "WRONG");
  return good ? 0 : 1;
}
