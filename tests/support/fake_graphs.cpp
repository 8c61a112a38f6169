#include "support/fake_graphs.hpp"

#include <cstring>

namespace kda::test {
namespace {

constexpr std::uintptr_t kMostNodes = 16;  // a graph's handle and its nodes' are one row of numbers

template <class Handle>
Handle handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}
CUgraph graph_of(CUgraphNode node) {
  return handle<CUgraph>(reinterpret_cast<std::uintptr_t>(node) / kMostNodes * kMostNodes);
}
std::size_t number_of(CUgraphNode node) {
  return reinterpret_cast<std::uintptr_t>(node) % kMostNodes - 1;
}

}  // namespace

CUresult FakeGraphs::begin(CUstream stream) {
  open_[stream] = {};
  return CUDA_SUCCESS;
}

void FakeGraphs::capture(const FakeLaunch& launch) {
  ++captured;
  open_[launch.config.hStream].push_back(launch);
}

CUresult FakeGraphs::end(CUstream stream, CUgraph* graph) {
  *graph = handle<CUgraph>(next_ += kMostNodes);
  all_[*graph] = open_.at(stream);
  open_.erase(stream);
  graphs = all_.size();
  return CUDA_SUCCESS;
}

CUresult FakeGraphs::nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) const {
  const std::size_t there = all_.at(graph).size();
  for (std::size_t i = 0; i < there && i < *count; ++i) {
    nodes[i] = handle<CUgraphNode>(reinterpret_cast<std::uintptr_t>(graph) + there - i);
  }
  *count = there;
  return CUDA_SUCCESS;
}

CUresult FakeGraphs::params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) const {
  const FakeLaunch& launch = all_.at(graph_of(node)).at(number_of(node));
  const CUlaunchConfig& config = launch.config;
  *params = {};
  params->gridDimX = config.gridDimX;
  params->gridDimY = config.gridDimY;
  params->gridDimZ = config.gridDimZ;
  params->blockDimX = config.blockDimX;
  params->blockDimY = config.blockDimY;
  params->blockDimZ = config.blockDimZ;
  params->sharedMemBytes = config.sharedMemBytes;
  params->kern = reinterpret_cast<CUkernel>(launch.function);
  return CUDA_SUCCESS;
}

CUresult FakeGraphs::instantiate(CUgraphExec* executable, CUgraph graph, CUcontext context) {
  *executable = handle<CUgraphExec>(next_ += kMostNodes);
  executables_[*executable] = {graph, context, all_.at(graph), {}};
  executables = executables_.size();
  return CUDA_SUCCESS;
}

// All but the grid and the arguments must stay, the context of the kernel too.
CUresult FakeGraphs::set(CUgraphExec executable, CUgraphNode node,
                         const CUDA_KERNEL_NODE_PARAMS* params) {
  Executable& to = executables_.at(executable);
  if (graph_of(node) != to.graph) return CUDA_ERROR_INVALID_VALUE;
  FakeLaunch& launch = to.launches.at(number_of(node));
  CUlaunchConfig& config = launch.config;
  if (params->blockDimX != config.blockDimX || params->sharedMemBytes != config.sharedMemBytes ||
      params->kern != reinterpret_cast<CUkernel>(launch.function) || params->ctx != to.context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::thread::id self = std::this_thread::get_id();
  if (to.setter != std::thread::id() && to.setter != self) ++collisions;
  to.setter = self;
  ++sets;
  config.gridDimX = params->gridDimX;
  config.gridDimY = params->gridDimY;
  config.gridDimZ = params->gridDimZ;
  std::memcpy(&launch.argument, params->kernelParams[0], sizeof launch.argument);
  return CUDA_SUCCESS;
}

CUresult FakeGraphs::launch(CUgraphExec executable, CUstream stream, std::vector<FakeLaunch>& to) {
  Executable& from = executables_.at(executable);
  from.setter = {};
  ++launched;
  for (FakeLaunch each : from.launches) {
    each.config.hStream = stream;
    each.graph = executable;
    to.push_back(each);
  }
  return CUDA_SUCCESS;
}

CUresult FakeGraphs::destroy(CUgraph graph) {
  all_.erase(graph);
  graphs = all_.size();
  return CUDA_SUCCESS;
}

CUresult FakeGraphs::destroy(CUgraphExec executable, bool alive) {
  if (!alive) ++too_late;
  executables_.erase(executable);
  executables = executables_.size();
  return CUDA_SUCCESS;
}

CUcontext FakeGraphs::context_of(CUgraphExec executable) const {
  return executables_.at(executable).context;
}

}  // namespace kda::test
