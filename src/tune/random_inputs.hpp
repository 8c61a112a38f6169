// Inputs and judge inside an application: random tensors that need no reference, and strategy
// `recurrent`, the yardstick inside the library, to compare with.
#pragma once

#include <memory>

#include "tune/device_measurer.hpp"

namespace kda::tune {

class RandomInputs : public Inputs {
 public:
  // All must outlive it; problem is complete.  Throws measure::Failure where the memory does not
  // suffice or `recurrent` does not serve the problem.
  RandomInputs(const measure::Gpu& gpu, const Problem& problem, cache::Cache& cache);
  ~RandomInputs() override;

  int sets() const override;
  Forward forward(int set) const override;
  const Problem& small_problem() const override;
  // Every element, against `recurrent`.
  Verdict judge_small(const Enqueue& run) override;
  // Rows all over the run, against `recurrent`.
  Verdict judge_at_size(const Enqueue& run) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda::tune
