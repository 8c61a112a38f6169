// What a call costs its caller: host time of Plan::run, and calls in a row without a graph.
#pragma once

#include "measure/gpu_time.hpp"

namespace kda::bench {

using measure::Call;
using measure::Gpu;

struct HostTime {
  measure::Summary call_us;  // calls in a row, synchronised at the end: host included
  measure::Summary run_ns;   // Plan::run alone, the queue never full
};

// gpu_us: the call's GPU time, to keep slow variants short.
HostTime host_time(const Gpu& gpu, const Call& call, int sets, double gpu_us, bool quick);

}  // namespace kda::bench
