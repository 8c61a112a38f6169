// The hot path: no allocation, lock or environment unless something is wrong.
#include "launch/enqueue.hpp"

#include <array>

#include "launch/graph_pool.hpp"
#include "launch/tensor_map.hpp"
#include "program/program.hpp"

namespace kda::program {

namespace {

constexpr std::size_t kMostAtOnce = launch::GraphPool::kMostKernels;

launch::Geometry geometry_of(const compose::Stage& stage, const compose::Launch& launch) {
  return {{launch.grid[0], launch.grid[1], launch.grid[2]},
          stage.threads,
          stage.shared_bytes,
          stage.cluster,
          stage.overlaps_previous};
}

// The stage's arguments for a call.
Status bind(const compose::Stage& stage, const compose::Run& call, compose::Launch& launch) {
  stage.bind(call, launch);
  for (std::size_t i = 0; i < launch.map_count; ++i) {
    const compose::Launch::Map& map = launch.maps[i];
    if (Status status = launch::encode(map.tensor, launch.args + map.at); !status) return status;
  }
  return {};
}

Status enqueue(const Kernel& kernel, const compose::Launch& launch, CUstream_st* stream) {
  return launch::enqueue(kernel.module, geometry_of(kernel.stage, launch), launch.args, stream);
}

// At once by a kept graph; where that cannot be, one by one.
Status enqueue_at_once(const Program& program, const compose::Run& call, CUstream_st* stream) {
  std::array<compose::Launch, kMostAtOnce> launches;
  std::array<launch::GraphPool::Call, kMostAtOnce> calls;
  const std::size_t count = program.kernels.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (Status status = bind(program.kernels[i].stage, call, launches[i]); !status) return status;
    calls[i] = {launches[i].grid, launches[i].args};
  }
  if (program.graphs->launch({calls.data(), count}, stream)) return {};
  for (std::size_t i = 0; i < count; ++i) {
    if (Status status = enqueue(program.kernels[i], launches[i], stream); !status) return status;
  }
  return {};
}

}  // namespace

void keep_graphs(Program& program, const device::Device& device) {
  if (!device.present() || program.kernels.size() > kMostAtOnce) return;
  std::vector<launch::GraphPool::Kernel> kernels;
  for (const Kernel& kernel : program.kernels) {
    kernels.push_back({kernel.module, geometry_of(kernel.stage, {})});
  }
  program.graphs = launch::GraphPool::make(std::move(kernels), device.ordinal);
}

Status enqueue(const Program& program, const compose::Run& call, CUstream_st* stream) {
  if (program.graphs != nullptr) return enqueue_at_once(program, call, stream);
  for (const Kernel& kernel : program.kernels) {
    compose::Launch launch;
    if (Status status = bind(kernel.stage, call, launch); !status) return status;
    if (Status status = enqueue(kernel, launch, stream); !status) return status;
  }
  return {};
}

}  // namespace kda::program
