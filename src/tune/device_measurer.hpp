// Candidates on one device of this process: verified, then timed by CUDA events.  A candidate that
// faults takes the process's CUDA context with it; tools/worker runs this in a child for that.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "measure/gpu.hpp"
#include "tune/search.hpp"

namespace kda::tune {

struct Verdict {
  std::string why;                      // of a wrong one; empty: right
  double o_error = 0, state_error = 0;  // rel-L2
};

// Enqueues one run of a candidate on the Gpu's stream.
using Enqueue = std::function<Status(const Forward&)>;

// A problem's inputs on the device, and the judge of what comes out.
class Inputs {
 public:
  virtual ~Inputs() = default;

  // Buffer sets that calls take in turn, so many that none finds its inputs in the L2.
  virtual int sets() const = 0;
  virtual Forward forward(int set) const = 0;

  // The problem that every candidate is verified on first: its kernels are those of the problem
  // itself, which know neither T nor N nor H, but it is small enough for a whole check.
  virtual const Problem& small_problem() const = 0;
  virtual Verdict judge_small(const Enqueue& run) = 0;
  // The problem itself, of which a part is checked.
  virtual Verdict judge_at_size(const Enqueue& run) = 0;
};

class DeviceMeasurer : public Measurer {
 public:
  // All must outlive it.  problem is complete, the one of inputs.
  DeviceMeasurer(const measure::Gpu& gpu, const Problem& problem, cache::Cache& cache,
                 Inputs& inputs);
  ~DeviceMeasurer() override;

  // Fails once the device no longer answers: the candidate before that was the last.
  Status measure(std::span<const Candidate> candidates, const Timing& timing,
                 const Done& done) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda::tune
