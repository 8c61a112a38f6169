// A CUDA driver of our own for a scope, in place of libcuda: remembers what it was asked.
#pragma once

#include <cuda.h>

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kda::test {

class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  // What it shall be and do.
  int devices = 2;
  int capability[2] = {9, 0};
  CUresult init_result = CUDA_SUCCESS;
  CUresult load_result = CUDA_SUCCESS;
  CUresult launch_result = CUDA_SUCCESS;
  CUresult allocate_result = CUDA_SUCCESS;  // from pools
  bool capturing = false;                   // any stream
  std::string missing;                      // this call does not exist
  std::string refuse_once;                  // this call fails the next time
  int fail_at = 0;                          // the call that makes `calls` this number fails
  int calls = 0;
  CUcontext current = nullptr;
  CUdevice current_device = 0;
  std::set<CUcontext> alive = {own_context()};  // a primary one is while somebody retains it

  std::mutex mutex;  // held in every call

  // What was asked of it.
  struct Attribute {
    CUfunction_attribute which;
    int value;
    CUdevice device;
  };
  struct Launch {
    CUlaunchConfig config;
    std::vector<CUlaunchAttribute> attributes;
    CUfunction function;
    int argument;  // the first int of the one by-value parameter
  };
  int primaries_retained = 0, primaries_released = 0;
  int libraries_loaded = 0, libraries_unloaded = 0;
  int functions_loaded = 0;
  int events = 0;  // not destroyed yet
  int pools = 0;
  int lost_pools = 0;                    // the first so many are good no more
  std::vector<std::size_t> allocations;  // from pools
  int freed = 0;                         // of them
  CUcontext context_of_load = nullptr;
  std::vector<Attribute> attributes;
  std::vector<Launch> launches;

  // Contexts it hands out: a device's primary, and one that the application made.
  static CUcontext primary(CUdevice device);
  static CUcontext own_context();
};

}  // namespace kda::test
