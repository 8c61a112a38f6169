// What one run of a trial writes.
#pragma once

#include <cstddef>

#include "support/rig.hpp"
#include "support/trials.hpp"

namespace kda::test {

inline reference::Outputs outputs_of(const Gpu& gpu, const Trial& trial,
                                     const reference::Tensors& tensors, const char* strategy,
                                     const char* tuning) {
  Options options;
  options.strategy = strategy;
  options.tuning = tuning;
  const Result<Plan> plan = Plan::make(trial.problem, options);
  INFO(strategy << " " << tuning);
  REQUIRE(plan);
  Rig rig(gpu, trial, tensors);
  CHECK(rig.run(*plan) == "");
  return rig.outputs();
}

// A run of the plan behind another one, in the same workspace.
inline Rig::Run behind(const Plan& plan, const Rig& before) {
  return [&](const Forward& forward, void* workspace, std::size_t bytes, Stream stream) {
    if (Status status = plan.run(before.forward(), workspace, bytes, stream); !status) {
      return status;
    }
    return plan.run(forward, workspace, bytes, stream);
  };
}

// What a run leaves in a workspace the next one must not see: its bits are those of one alone.
inline void check_behind(const Gpu& gpu, const Plan& plan, const Trial& trial, Truth& truth,
                         const Trial& other, Truth& other_truth) {
  Rig alone(gpu, trial, truth.tensors()), before(gpu, other, other_truth.tensors());
  CHECK(alone.run(plan) == "");
  before.reset();
  Rig rig(gpu, trial, truth.tensors());
  CHECK(rig.run(behind(plan, before), plan.workspace_bytes()) == "");
  CHECK((rig.output_bits() == alone.output_bits()));
}

// Bit for bit, but for the signs of zeros.
inline bool same(const reference::Outputs& x, const reference::Outputs& y) {
  return x.o == y.o && x.final_state == y.final_state;
}

}  // namespace kda::test
