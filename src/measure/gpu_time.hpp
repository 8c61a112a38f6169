// GPU time of several variants: CUDA graphs of calls, replayed in turn.
#pragma once

#include <functional>
#include <vector>

#include "measure/gpu.hpp"
#include "measure/statistics.hpp"

namespace kda::measure {

// Enqueues the call on the gpu's stream with buffer set number `set`.
using Call = std::function<void(int set)>;

struct GraphSettings {
  int sets = 1;            // of buffers; calls in a graph take them in rotation
  int calls = 5;           // a graph at least
  int repeats = 15;        // replays of each graph
  double window = 1e3;     // microseconds that a graph should at least last: more calls if need be
  double warm_up_ms = 50;  // an idle device takes so long to clock up
};

struct GpuTime {
  int calls = 0;    // in the graph
  Summary summary;  // microseconds a call, over the replays
};

// Microseconds of one call after a warm-up, to plan with; enqueued without a graph.
double rough_time(const Gpu& gpu, const Call& call);

// Microseconds of the very first call, enqueued without a graph: a warm-up that tells whether more
// are worth their time.
double first_time(const Gpu& gpu, const Call& call);

// Calls one by one over the buffer sets, timed each by itself and without a graph.
Summary call_times(const Gpu& gpu, const Call& call, int sets, int calls);

// One graph a variant; replays interleave (A, B, C, A, B, C, ...), so that a drift of the clocks
// meets all alike.  A call that takes over 50 ms is measured by fewer calls and replays.
std::vector<GpuTime> graph_times(const Gpu& gpu, const std::vector<Call>& variants,
                                 const GraphSettings& settings);

// Bytes a second of a large device-to-device copy, read and written alike: what "floor" means here.
double copy_bandwidth(const Gpu& gpu);

}  // namespace kda::measure
