// What was found out about one variant of one problem.
#pragma once

#include <optional>
#include <string>

#include "bench/host_time.hpp"
#include "bench/variant.hpp"
#include "bench/verify.hpp"
#include "cli/subject.hpp"
#include "measure/gpu_time.hpp"

namespace kda::bench {

using cli::Subject;
using measure::GpuTime;

constexpr const char* kRunOnce = "run once, not verified";  // Measurement::skipped of --profile

struct Measurement {
  const Subject* subject = nullptr;
  const Variant* variant = nullptr;  // null: the whole problem was skipped
  std::string skipped;               // why nothing was timed, in words
  std::optional<Verdict> verdict;
  int heads_verified = 0;
  std::optional<GpuTime> gpu;
  std::optional<HostTime> host;
  int sets = 0;  // of buffers
};

}  // namespace kda::bench
