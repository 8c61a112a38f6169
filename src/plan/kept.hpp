// The last plans that were made: the same call again copies one instead of choosing, composing and
// loading anew.
#pragma once

#include <memory>
#include <string>

#include "plan/plan.hpp"

namespace kda::plan {

// All that a choice depends on.
struct Recall {
  Problem problem;  // complete
  Options options;
  int ordinal;              // the device that options come to; -1: named
  unsigned driver;          // launch::driver_generation()
  std::string environment;  // base::env::snapshot()

  bool operator==(const Recall&) const = default;
};

// A plan of its own, its kernels ready in the thread's present context; null where none is kept, or
// where the driver will not have the kept one, which then is forgotten.
std::unique_ptr<const Plan::Impl> recall(const Recall& wanted);

void keep(Recall recall, const Plan::Impl& plan);

// What is kept holds its kernels' code on the device, but no context: forgetting frees that.  To be
// called where the reason for a choice changed: a new measurement, say.
void forget_all();

// The same plan again, its kernels ready; fails with device_error.
Result<std::unique_ptr<const Plan::Impl>> copy_of(const Plan::Impl& plan);

}  // namespace kda::plan
