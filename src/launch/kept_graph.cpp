#include "launch/kept_graph.hpp"

#include <utility>

namespace kda::launch {
namespace {

// What kernels are captured with; no launch goes out before it is set.
alignas(64) constexpr std::byte kNoArgs[4096] = {};

}  // namespace

Result<KeptGraph> KeptGraph::make(const Driver& driver, std::span<const Kernel> kernels,
                                  CUstream stream) {
  if (kernels.size() > kMostKernels) {
    return Status(Code::device_error, "more kernels than a kept graph has room for");
  }
  KeptGraph kept;
  if (Status status = kept.capture(driver, kernels, stream); !status) return status;
  if (Status status = kept.find_nodes(driver, kernels.size()); !status) return status;
  if (Status status =
          check(driver.GraphInstantiate(&kept.executable_, kept.graph_, 0), "cuGraphInstantiate");
      !status) {
    return status;
  }
  // Now, so that no run's launch allocates.
  if (Status status = check(driver.GraphUpload(kept.executable_, stream), "cuGraphUpload");
      !status) {
    return status;
  }
  return kept;
}

// A kernel's number is in its grid's z: a graph lists its nodes in any order.
Status KeptGraph::capture(const Driver& driver, std::span<const Kernel> kernels, CUstream stream) {
  if (Status status = check(driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                            "cuStreamBeginCapture");
      !status) {
    return status;
  }
  Status launched;
  unsigned number = 0;
  for (const Kernel& kernel : kernels) {
    Geometry geometry = kernel.geometry;
    geometry.grid[0] = geometry.cluster;
    geometry.grid[1] = 1;
    geometry.grid[2] = ++number;
    launched = enqueue(kernel.module, geometry, kNoArgs, stream);
    if (!launched) break;
  }
  Status ended = check(driver.StreamEndCapture(stream, &graph_), "cuStreamEndCapture");
  return launched ? ended : launched;
}

Status KeptGraph::find_nodes(const Driver& driver, std::size_t count) {
  std::array<CUgraphNode, kMostKernels> nodes;
  std::size_t found = nodes.size();
  if (Status status = check(driver.GraphGetNodes(graph_, nodes.data(), &found), "cuGraphGetNodes");
      !status) {
    return status;
  }
  CUcontext context = nullptr;
  if (Status status = check(driver.CtxGetCurrent(&context), "cuCtxGetCurrent"); !status) {
    return status;
  }
  for (std::size_t i = 0; i < found && found == count; ++i) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    if (Status status =
            check(driver.GraphKernelNodeGetParams(nodes[i], &params), "cuGraphKernelNodeGetParams");
        !status) {
      return status;
    }
    // Null would mean the context of whoever sets it, who may have none.
    if (params.func == nullptr && params.ctx == nullptr) params.ctx = context;
    params.extra = nullptr;
    const std::size_t kernel = params.gridDimZ - 1;
    if (kernel < count) nodes_[kernel] = {nodes[i], params};
  }
  for (std::size_t kernel = 0; kernel < count; ++kernel) {
    if (nodes_[kernel].node == nullptr) {
      return {Code::device_error, "the capture did not come out as one node a kernel"};
    }
  }
  return {};
}

KeptGraph::~KeptGraph() {
  if (graph_ == nullptr) return;
  const Result<const Driver*> found = driver();
  if (!found) return;  // in a forked child: they are the parent's
  if (executable_ != nullptr) (void)(*found)->GraphExecDestroy(executable_);
  (void)(*found)->GraphDestroy(graph_);
}

CUresult KeptGraph::set(const Driver& driver, std::size_t kernel, const unsigned* grid,
                        const void* args) {
  const Node& node = nodes_[kernel];
  CUDA_KERNEL_NODE_PARAMS params = node.params;
  void* parameters[] = {const_cast<void*>(args)};
  params.gridDimX = grid[0];
  params.gridDimY = grid[1];
  params.gridDimZ = grid[2];
  params.kernelParams = parameters;
  return driver.GraphExecKernelNodeSetParams(executable_, node.node, &params);
}

CUresult KeptGraph::launch(const Driver& driver, CUstream stream) const {
  return driver.GraphLaunch(executable_, stream);
}

void KeptGraph::forget() noexcept {
  graph_ = nullptr;
  executable_ = nullptr;
}

void KeptGraph::swap(KeptGraph& other) noexcept {
  std::swap(graph_, other.graph_);
  std::swap(executable_, other.executable_);
  std::swap(nodes_, other.nodes_);
}

}  // namespace kda::launch
