// A problem's inputs and judge for a tuning worker: inputs from the seed, truth in fp64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/device_tensors.hpp"
#include "bench/verify.hpp"
#include "tune/device_measurer.hpp"

namespace kda::worker {

// What a worker is to measure on.
struct Subject {
  Problem problem;                    // complete
  std::vector<std::int64_t> lengths;  // of the sequences
  std::string regime = "mixed";       // of the gate: both halves of the strong and the weak one
  std::uint64_t seed = 1;
};

// Small: every element of every head against the fp64 recurrence.  At size: the heads of
// bench::Verifier against it, and every element of all heads finite and written.
class ReferenceInputs : public tune::Inputs {
 public:
  // Throws where the device's memory does not suffice.
  ReferenceInputs(const measure::Gpu& gpu, const Subject& subject);

  int sets() const override { return large_.device.sets(); }
  Forward forward(int set) const override { return large_.device.forward(set); }
  const Problem& small_problem() const override { return small_.host.problem; }
  tune::Verdict judge_small(const tune::Enqueue& run) override;
  tune::Verdict judge_at_size(const tune::Enqueue& run) override;

 private:
  struct Tensors {
    Tensors(const measure::Gpu& gpu, const Subject& subject);
    reference::Tensors host;
    bench::DeviceTensors device;
    std::optional<bench::Verifier> verifier;  // the truth, computed when first needed
  };
  tune::Verdict judge(Tensors& tensors, int heads, const tune::Enqueue& run);

  const measure::Gpu& gpu_;
  Tensors small_, large_;
};

}  // namespace kda::worker
