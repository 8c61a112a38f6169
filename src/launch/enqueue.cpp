#include "launch/enqueue.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include "launch/driver.hpp"

namespace kda::launch {
namespace {

Status refused(CUresult result, const Geometry& geometry) {
  const auto& [x, y, z] = geometry.grid;
  return check(result,
               fmt::format("kernel launch of {}x{}x{} blocks of {} threads, {} bytes of "
                           "shared memory, cluster {}",
                           x, y, z, geometry.threads, geometry.shared_bytes, geometry.cluster)
                   .c_str());
}

}  // namespace

Status enqueue(const Module& module, const Geometry& geometry, const void* args,
               CUstream_st* stream) {
  if (!module) return {Code::device_error, "kernel launch: its module is not loaded"};
  if (geometry.grid[0] == 0 || geometry.grid[1] == 0 || geometry.grid[2] == 0) return {};
  const Result<const Driver*> found = driver();
  if (!found) return found.status();

  CUlaunchAttribute attributes[2];  // `count` of them
  unsigned count = 0;
  if (geometry.cluster > 1) {
    attributes[count++] = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                           .value = {.clusterDim = {geometry.cluster, 1, 1}}};
  }
  if (geometry.overlaps_previous) {
    attributes[count++] = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                           .value = {.programmaticStreamSerializationAllowed = 1}};
  }
  CUlaunchConfig config = {};
  config.gridDimX = geometry.grid[0];
  config.gridDimY = geometry.grid[1];
  config.gridDimZ = geometry.grid[2];
  config.blockDimX = geometry.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(geometry.shared_bytes);
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  void* parameters[] = {const_cast<void*>(args)};
  // A CUkernel launches in whichever context the stream belongs to.
  const CUresult result = (*found)->LaunchKernelEx(
      &config, static_cast<CUfunction>(module.kernel()), parameters, nullptr);
  return result == CUDA_SUCCESS ? Status() : refused(result, geometry);
}

}  // namespace kda::launch
