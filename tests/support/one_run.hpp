// What one run of a trial writes.
#pragma once

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

// Bit for bit, but for the signs of zeros.
inline bool same(const reference::Outputs& x, const reference::Outputs& y) {
  return x.o == y.o && x.final_state == y.final_state;
}

}  // namespace kda::test
