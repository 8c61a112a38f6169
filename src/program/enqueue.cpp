// The hot path: no allocation, lock or environment unless something is wrong.
#include "launch/enqueue.hpp"

#include "program/program.hpp"

namespace kda::program {

Status enqueue(const Program& program, const compose::Run& call, CUstream_st* stream) {
  for (const Kernel& kernel : program.kernels) {
    compose::Launch launch;
    kernel.stage.bind(call, launch);
    if (launch.grid[0] == 0) continue;
    const launch::Geometry geometry{{launch.grid[0], launch.grid[1], launch.grid[2]},
                                    kernel.stage.threads,
                                    kernel.stage.shared_bytes,
                                    kernel.stage.cluster,
                                    kernel.stage.overlaps_previous};
    if (Status status = launch::enqueue(kernel.module, geometry, launch.args, stream); !status) {
      return status;
    }
  }
  return {};
}

}  // namespace kda::program
