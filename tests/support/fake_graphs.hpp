// The fake driver's graphs: captures of launches, and executables that remember what was set.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <thread>
#include <vector>

namespace kda::test {

struct FakeLaunch {
  CUlaunchConfig config;
  std::vector<CUlaunchAttribute> attributes;
  CUfunction function;
  int argument;                  // the first int of the one by-value parameter
  std::vector<std::byte> bytes;  // as many of that as FakeDriver::bytes_kept says
  CUgraphExec graph = nullptr;   // by which; null: by itself
};

class FakeGraphs {
 public:
  // What was asked of it.
  int captured = 0;                         // launches
  std::size_t graphs = 0, executables = 0;  // not destroyed yet
  int uploads = 0;
  int launched = 0;  // graphs
  int sets = 0;
  int collisions = 0;  // an executable set by one thread between another's first set and launch
  int too_late = 0;    // destroyed after their context

  bool capturing(CUstream stream) const { return open_.count(stream) > 0; }
  CUresult begin(CUstream stream);
  void capture(const FakeLaunch& launch);
  CUresult end(CUstream stream, CUgraph* graph);
  // The last first: their order says nothing.
  CUresult nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) const;
  CUresult params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) const;
  CUresult instantiate(CUgraphExec* executable, CUgraph graph, CUcontext context);
  CUresult set(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params);
  CUresult launch(CUgraphExec executable, CUstream stream, std::vector<FakeLaunch>& to);
  CUresult destroy(CUgraph graph);
  CUresult destroy(CUgraphExec executable, bool alive);
  CUcontext context_of(CUgraphExec executable) const;

 private:
  using Launches = std::vector<FakeLaunch>;
  struct Executable {
    CUgraph graph;
    CUcontext context;
    Launches launches;
    std::thread::id setter;  // since the launch before
  };

  std::uintptr_t next_ = 0x10000;
  std::map<CUstream, Launches> open_;
  std::map<CUgraph, Launches> all_;
  std::map<CUgraphExec, Executable> executables_;
};

}  // namespace kda::test
