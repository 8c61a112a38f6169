// Plans a prefill for a device that need not be here, and prints the plan.
#include <cstdio>
#include <kda/kda.hpp>

int main() {
  kda::Problem problem{.heads = 16, .value_heads = 64, .max_tokens = 8192, .final_state = true};
  kda::Options options{.target = "h200"};  // without a target: the device at hand

  // Compiles, or finds the kernels in the cache.
  kda::Result<kda::Plan> plan = kda::Plan::make(problem, options);
  if (!plan) {
    std::fprintf(stderr, "%s\n", plan.status().message().c_str());
    return 1;
  }
  std::printf("%s", plan->describe().c_str());
}
