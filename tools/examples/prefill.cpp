// The main job: plans three prefills, compiles and caches their kernels, runs them, and holds the
// results against the fp64 reference.  With no device it composes and compiles the same plans for
// sm_89 and sm_90a and says what was not run.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/failure.hpp"
#include "compile/nvrtc.hpp"
#include "kda/kda.hpp"
#include "measure/failure.hpp"
#include "measure/gpu.hpp"
#include "reference/error.hpp"
#include "reference/inputs.hpp"

namespace {

using namespace kda;

struct Prefill {
  const char* name;
  Problem problem;
  std::vector<std::int64_t> cu_seqlens;
};

const std::vector<Prefill> prefills = {
    {"one long sequence, bf16, two value heads a key head",
     {.heads = 2, .value_heads = 4, .max_tokens = 2048, .initial_state = true, .final_state = true},
     {0, 2048}},
    {"five sequences of any length, one empty, the softplus gate",
     {.heads = 2,
      .max_tokens = 1500,
      .max_sequences = 5,
      .varlen = true,
      .gate = Gate::softplus,
      .final_state = true},
     {0, 700, 701, 701, 1000, 1500}},
    {"f32 throughout, K = 64, unbounded log decays",
     {.heads = 2,
      .key_dim = 64,
      .max_tokens = 1000,
      .qkv_type = DType::f32,
      .gate_type = DType::f32,
      .beta_type = DType::f32,
      .gate = Gate::log_decay,
      .final_state = true},
     {0, 1000}},
};

std::vector<Plan> make_plans(const std::string& target) {
  std::vector<Problem> problems;
  for (const Prefill& prefill : prefills) problems.push_back(prefill.problem);
  const auto start = std::chrono::steady_clock::now();
  std::vector<Plan> plans;
  for (Result<Plan>& made : Plan::make_all(problems, {.target = target})) {
    plans.push_back(cli::must(std::move(made)));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  fmt::print("\n== {} plans for {}, ready in {:.0f} ms ==\n", plans.size(),
             target.empty() ? "this device" : target, took.count());
  return plans;
}

void describe(const Prefill& prefill, const Plan& plan) {
  fmt::print("\n{}\n{}", prefill.name, plan.describe());
}

measure::Buffer upload(const measure::Gpu& gpu, const void* host, std::size_t bytes) {
  measure::Buffer buffer(gpu, bytes);
  buffer.upload(host, bytes);
  return buffer;
}

// Runs the plan and says whether o and the final state are within the stated bounds.
bool run(const measure::Gpu& gpu, const Prefill& prefill, const Plan& plan) {
  const Problem& problem = plan.problem();
  const reference::Tensors in =
      reference::make_tensors(problem, prefill.cu_seqlens.back(), prefill.cu_seqlens);

  const auto on_device = [&](const auto& host) {
    return upload(gpu, host.data(), host.size() * sizeof host[0]);
  };
  const measure::Buffer q = on_device(in.q), k = on_device(in.k), v = on_device(in.v),
                        g = on_device(in.g), beta = on_device(in.beta), A_log = on_device(in.A_log),
                        dt_bias = on_device(in.dt_bias), state = on_device(in.initial_state),
                        cu_seqlens = on_device(in.cu_seqlens);
  reference::Bytes host_o(in.v.size());
  reference::Bytes host_state(std::size_t(in.sequences()) * problem.value_heads * problem.key_dim *
                              problem.value_dim * sizeof(float));
  const measure::Buffer o(gpu, host_o.size()), final_state(gpu, host_state.size()),
      workspace(gpu, plan.workspace_bytes());

  const Forward forward{.tokens = in.tokens,
                        .sequences = in.sequences(),
                        .cu_seqlens = problem.varlen ? cu_seqlens.data() : nullptr,
                        .q = q.data(),
                        .k = k.data(),
                        .v = v.data(),
                        .g = g.data(),
                        .beta = beta.data(),
                        .A_log = static_cast<const float*>(A_log.data()),
                        .dt_bias = static_cast<const float*>(dt_bias.data()),
                        .initial_state = state.data(),
                        .o = o.data(),
                        .final_state = final_state.data()};
  cli::must(plan.run(forward, workspace.data(), workspace.bytes(), gpu.stream()));
  o.download(host_o.data(), host_o.size());
  final_state.download(host_state.data(), host_state.size());

  const auto errors = reference::errors_of(
      problem, reference::reference_outputs(in, host_o.data(), host_state.data()),
      reference::recurrence(reference::reference_inputs(in)));
  const auto within = [](const reference::Error& error, double bound) {
    return error.not_finite == 0 && error.rel_l2 <= bound;
  };
  const double o_bound = reference::o_tolerance(problem);
  const double state_bound = reference::state_tolerance(problem);
  const bool good = within(errors.o, o_bound) && within(errors.state, state_bound);
  fmt::print("ran: o {} (bound {:.1e}); state {} (bound {:.1e}): {}\n",
             reference::to_text(errors.o), o_bound, reference::to_text(errors.state), state_bound,
             good ? "good" : "WRONG");
  return good;
}

int compile_only(const std::string& why) {
  for (const char* target : {"sm_89", "sm_90a"}) {
    const std::vector<Plan> plans = make_plans(target);
    for (std::size_t i = 0; i < plans.size(); ++i) describe(prefills[i], plans[i]);
  }
  fmt::print("\nNot run, only compiled: {}\n", why);
  return cli::kOk;
}

int compile_and_run() {
  const measure::Gpu gpu(-1);
  fmt::print("{}\n", gpu.device().name);
  const std::vector<Plan> plans = make_plans("");
  bool good = true;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    describe(prefills[i], plans[i]);
    good = run(gpu, prefills[i], plans[i]) && good;
  }
  fmt::print("\n{}\n", good ? "Every result is within its bound of the fp64 reference."
                            : "A result is outside its bound.");
  return good ? cli::kOk : cli::kFailed;
}

}  // namespace

int main() try {
  fmt::print("{} from {}\n", cli::must(compile::identity()), cli::must(compile::library_path()));
  const Result<device::Device> present = device::query(-1);
  return present ? compile_and_run() : compile_only(present.status().message());
} catch (const cli::Failure& failure) {
  fmt::print(stderr, "prefill: {}\n", failure.what());
  return failure.code;
} catch (const measure::Failure& failure) {
  fmt::print(stderr, "prefill: {}\n", failure.what());
  return cli::kFailed;
}
