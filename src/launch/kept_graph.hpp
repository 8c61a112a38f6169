// A run's kernels as one executable graph, kept: each run sets their arguments anew and launches it
// once, which costs the host less than a launch for each kernel.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "kda/status.hpp"
#include "launch/driver.hpp"
#include "launch/enqueue.hpp"
#include "launch/module.hpp"

namespace kda::launch {

// Not for two threads at once, nor two of them made from one CUgraph: the driver locks neither.
class KeptGraph {
 public:
  // unit_steps in a pool: keep, both ways by segments that may go again, look, and two.
  static constexpr std::size_t kMostKernels = 14;

  struct Kernel {
    Module module;
    Geometry geometry;  // its grid is each run's own
  };

  // In the current context, by a capture of `stream`, which is the caller's alone and on which the
  // upload is enqueued.  Fails with device_error.
  static Result<KeptGraph> make(const Driver& driver, std::span<const Kernel> kernels,
                                CUstream stream);

  KeptGraph() = default;
  KeptGraph(KeptGraph&& other) noexcept { swap(other); }
  KeptGraph& operator=(KeptGraph&& other) noexcept {
    KeptGraph before(std::move(*this));
    swap(other);
    return *this;
  }
  ~KeptGraph();

  // For the launches from now on; those before keep what they were launched with.
  CUresult set(const Driver& driver, std::size_t kernel, const unsigned* grid, const void* args);
  CUresult launch(const Driver& driver, CUstream stream) const;

  // Its context is gone and it went along: there is nothing left to destroy.
  void forget() noexcept;

 private:
  struct Node {
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS params = {};  // as captured
  };

  Status capture(const Driver& driver, std::span<const Kernel> kernels, CUstream stream);
  Status find_nodes(const Driver& driver, std::size_t count);
  void swap(KeptGraph& other) noexcept;

  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
  std::array<Node, kMostKernels> nodes_;  // by the number of their kernel
};

}  // namespace kda::launch
