// A call of launch.cuh as a graph, whose kernels' parameters can be set anew before each launch.
#pragma once

#include "launch.cuh"

namespace kda::launches {

// A call captured from a stream.  What the driver refuses stays in status(), for a row to say.
class Graph {
 public:
  Graph(Call& call, CUstream stream) : call_(call) {
    DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    status_ = call.launch(stream);
    const CUresult ended = cuStreamEndCapture(stream, &graph_);
    if (status_ == CUDA_SUCCESS) status_ = ended;
    if (status_ == CUDA_SUCCESS) status_ = find_nodes();
    if (status_ == CUDA_SUCCESS) status_ = cuGraphInstantiate(&executable_, graph_, 0);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (executable_ != nullptr) cuGraphExecDestroy(executable_);
    if (graph_ != nullptr) cuGraphDestroy(graph_);
  }

  CUresult status() const { return status_; }
  CUresult launch(CUstream stream) const {
    return status_ == CUDA_SUCCESS ? cuGraphLaunch(executable_, stream) : status_;
  }

  // The parameters that the call has now.
  CUresult set(int number) {
    if (status_ != CUDA_SUCCESS) return status_;
    std::size_t bytes = call_.setting().bytes;
    void* pointers[] = {call_.params(number)};
    void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, call_.params(number),
                      CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUgraphNodeParams& all = nodes_[number].params;
    all.kernel.kernelParams = by_buffer ? nullptr : pointers;
    all.kernel.extra = by_buffer ? packed : nullptr;
    if (by_any_node) return cuGraphExecNodeSetParams(executable_, nodes_[number].node, &all);
    const CUDA_KERNEL_NODE_PARAMS params = {
        .func = all.kernel.func,
        .gridDimX = all.kernel.gridDimX,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = all.kernel.blockDimX,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = all.kernel.sharedMemBytes,
        .kernelParams = all.kernel.kernelParams,
        .extra = all.kernel.extra,
        .kern = all.kernel.kern,
        .ctx = all.kernel.ctx,
    };
    return cuGraphExecKernelNodeSetParams(executable_, nodes_[number].node, &params);
  }
  CUresult set() {
    for (int number = 0; number < call_.setting().kernels; ++number) {
      const CUresult result = set(number);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }
  CUresult set_and_launch(CUstream stream) {
    const CUresult result = set();
    return result == CUDA_SUCCESS ? launch(stream) : result;
  }

  // Edges, and those of them by which a kernel may start before the one before has ended.
  std::pair<int, int> edges() const {
    std::array<CUgraphNode, 16> from, to;
    std::array<CUgraphEdgeData, 16> data = {};
    std::size_t count = data.size();
    if (status_ != CUDA_SUCCESS ||
        cuGraphGetEdges_v2(graph_, from.data(), to.data(), data.data(), &count) != CUDA_SUCCESS) {
      return {0, 0};
    }
    const auto programmatic = [](const CUgraphEdgeData& edge) {
      return edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    };
    return {static_cast<int>(count),
            static_cast<int>(std::count_if(data.begin(), data.begin() + count, programmatic))};
  }

  bool by_buffer = false;
  bool by_any_node = false;  // cuGraphExecNodeSetParams instead of cuGraphExecKernelNodeSetParams

 private:
  struct Node {
    CUgraphNode node = nullptr;
    CUgraphNodeParams params = {};
  };

  // By the number that their parameters carry: a graph lists its nodes in any order.
  CUresult find_nodes() {
    std::array<CUgraphNode, 16> nodes;
    std::size_t count = nodes.size();
    CUresult result = cuGraphGetNodes(graph_, nodes.data(), &count);
    for (std::size_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
      CUDA_KERNEL_NODE_PARAMS params = {};
      result = cuGraphKernelNodeGetParams(nodes[i], &params);
      if (result != CUDA_SUCCESS) break;
      if (params.kernelParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
      const int number = static_cast<const Head*>(params.kernelParams[0])->number;
      nodes_[number].node = nodes[i];
      CUgraphNodeParams& kept = nodes_[number].params;
      kept.type = CU_GRAPH_NODE_TYPE_KERNEL;
      kept.kernel.func = params.func;
      kept.kernel.gridDimX = params.gridDimX;
      kept.kernel.gridDimY = kept.kernel.gridDimZ = 1;
      kept.kernel.blockDimX = params.blockDimX;
      kept.kernel.blockDimY = kept.kernel.blockDimZ = 1;
      kept.kernel.sharedMemBytes = params.sharedMemBytes;
      kept.kernel.kern = params.kern;
      kept.kernel.ctx = params.ctx;
    }
    return result;
  }

  Call& call_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
  CUresult status_ = CUDA_SUCCESS;
  std::array<Node, most_kernels> nodes_;
};

}  // namespace kda::launches
