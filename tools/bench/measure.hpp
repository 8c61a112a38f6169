// One problem on the device with its variants; the gate regimes come to it one after another.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/device_tensors.hpp"
#include "bench/measurement.hpp"
#include "bench/request.hpp"

namespace kda::bench {

class Bench {
 public:
  // Makes every variant's plan; a refused one keeps its reason.  All arguments must outlive it.
  Bench(const Gpu& gpu, const Request& request, const Subject& subject);

  // Generates the inputs, or only changes dt_bias where nothing else depends on the regime.
  void enter(const std::string& regime);

  // Verifies every variant, then times the right ones in turn.  Throws Failure where the device
  // refuses.
  std::vector<Measurement> measure(const Subject& subject);

  // Each variant once and unverified, for a profiler.
  std::vector<Measurement> run_once(const Subject& subject);

 private:
  Call call_of(const Variant& variant);
  std::vector<Measurement> verify(const Subject& subject);

  const Gpu& gpu_;
  const Request& request_;
  const Subject& subject_;
  std::deque<Variant> variants_;
  Buffer workspace_;  // one for all variants: they never run at once
  reference::Tensors host_;
  std::unique_ptr<DeviceTensors> tensors_;
};

}  // namespace kda::bench
