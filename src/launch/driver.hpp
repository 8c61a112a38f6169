// libcuda, opened on first use: the calls we use, CUresult to Status.
#pragma once

#include <cuda.h>

#include "kda/status.hpp"

namespace kda::launch {

// One field a function; names as in cuda.h without the cu.
struct Driver {
  decltype(&::cuInit) Init;
  decltype(&::cuDriverGetVersion) DriverGetVersion;
  // ... the rest with the implementation
};

// Fails with device_error: libcuda.so.1 is missing (why dlopen refused), too old, or cuInit failed.
Result<const Driver*> driver();

// ok, or device_error "<what>: CUDA_ERROR_X (meaning)".
Status check(CUresult result, const char* what);

}  // namespace kda::launch
