// A CUDA driver of our own for a scope, in place of libcuda: remembers what it was asked.
#pragma once

#include <cuda.h>

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_graphs.hpp"

namespace kda::test {

// One may stand within another's scope, which is back behind it.
class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  // What it shall be and do.
  int devices = 2;
  int capability[2] = {9, 0};
  int memory_clock = 3201000;  // kilohertz
  CUresult init_result = CUDA_SUCCESS;
  bool init_forks = false;  // as libcuda's does that has nvidia-modprobe make device nodes
  CUresult load_result = CUDA_SUCCESS;
  CUresult launch_result = CUDA_SUCCESS;
  CUresult set_result = CUDA_SUCCESS;       // of a kept graph's arguments
  CUresult allocate_result = CUDA_SUCCESS;  // from pools
  CUresult encode_result = CUDA_SUCCESS;    // of tensor maps
  std::size_t bytes_kept = 0;               // of a launch's parameter
  bool capturing = false;                   // any stream but those of our own captures
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;  // of the threads
  int breaking_calls = 0;   // outside of relaxed mode, where they may end a capture
  std::string missing;      // this call does not exist
  std::string refuse_once;  // this call fails the next time
  CUresult refuse_with = CUDA_ERROR_UNKNOWN;
  int fail_at = 0;  // the call that makes `calls` this number fails
  int calls = 0;
  CUcontext current = nullptr;
  CUdevice current_device = 0;
  CUcontext stream_context = primary(0);        // of all streams but the default ones
  unsigned long long resets = 0;                // of devices: contexts have other ids after each
  std::set<CUcontext> alive = {own_context()};  // a primary one is while somebody retains it

  std::mutex mutex;  // held in every call

  // What was asked of it.
  struct Attribute {
    CUfunction_attribute which;
    int value;
    CUdevice device;
  };
  using Launch = FakeLaunch;
  int primaries_retained = 0, primaries_released = 0;
  int libraries_loaded = 0, libraries_unloaded = 0;
  int functions_loaded = 0;
  int events = 0;  // not destroyed yet
  int pools = 0;
  int destroyed_pools = 0;
  std::vector<int> pool_devices;         // the ordinal of each pool that was made ...
  std::vector<int> pools_asked;          // ... and of each that memory was had from
  int lost_pools = 0;                    // the first so many are good no more
  std::vector<std::size_t> allocations;  // from pools
  int freed = 0;                         // of them
  CUcontext context_of_load = nullptr;
  std::vector<Attribute> attributes;
  std::vector<Launch> launches;  // those of graphs too
  struct TensorMap {
    CUtensorMapDataType type;
    const void* data;
    std::vector<cuuint64_t> sizes, strides;
    std::vector<cuuint32_t> box;
    CUtensorMapSwizzle swizzle;
  };
  std::vector<TensorMap> tensor_maps;
  int streams = 0;  // not destroyed yet
  FakeGraphs graphs;

  // Contexts it hands out: a device's primary, and one that the application made.
  static CUcontext primary(CUdevice device);
  static CUcontext own_context();

 private:
  FakeDriver* outer_;  // whose scope this one is in
};

}  // namespace kda::test
