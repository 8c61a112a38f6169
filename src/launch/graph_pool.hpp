// Kept graphs of the same kernels for the streams of a context: each has one to itself, none is
// ever waited for.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "launch/context.hpp"
#include "launch/kept_graph.hpp"

namespace kda::launch {

class GraphPool {
 public:
  using Kernel = KeptGraph::Kernel;
  static constexpr std::size_t kMostKernels = KeptGraph::kMostKernels;
  static constexpr std::size_t kStreams = 4;  // each an executable graph: memory of host and device

  // For kernels that are ready in the thread's present context on the device.  Null for a single
  // one, and where the driver refuses, which the log says at debug: they are launched one by one.
  // Holds their libraries, not the context; nothing of it is used or freed once that is gone.
  static std::shared_ptr<GraphPool> make(std::vector<Kernel> kernels, int ordinal);

  // The same pool where it is of the context that make() would use, else another.
  static std::shared_ptr<GraphPool> renewed(const std::shared_ptr<GraphPool>& pool, int ordinal);

  // make()'s.
  GraphPool(std::vector<Kernel> kernels, const ContextName& context,
            std::array<KeptGraph, kStreams> graphs);
  ~GraphPool();
  GraphPool(const GraphPool&) = delete;
  GraphPool& operator=(const GraphPool&) = delete;

  struct Call {
    const unsigned* grid = nullptr;  // three
    const void* args = nullptr;
  };

  // Launches a graph with these, one for each kernel.  False: nothing was enqueued, and launches
  // one by one shall serve; so it is where a grid is empty, the thread's context is not the pool's,
  // the stream is being captured, of another context or the thread's own default, its graph is in
  // use by another thread, or none is left.  Neither waits nor allocates.
  bool launch(std::span<const Call> calls, CUstream stream);

 private:
  struct alignas(64) Slot {
    std::atomic<CUstream> stream{nullptr};  // the first that took it, for good; null: nobody's yet
    std::atomic<bool> taken{false};         // guards the graph; stays true where it was refused
    KeptGraph graph;
  };

  static Result<std::shared_ptr<GraphPool>> in_context(std::vector<Kernel> kernels, int ordinal,
                                                       const std::shared_ptr<GraphPool>& before);
  static std::shared_ptr<GraphPool> or_none(Result<std::shared_ptr<GraphPool>> made);
  bool serves(const Driver& driver, CUstream stream) const;
  Slot* take(CUstream stream);

  std::vector<Kernel> kernels_;  // their libraries outlive the graphs
  ContextName context_;
  unsigned driver_;  // driver_generation()
  std::array<Slot, kStreams> slots_;
};

}  // namespace kda::launch
