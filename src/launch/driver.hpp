// libcuda, opened on first use: the calls we use, CUresult to Status.
#pragma once

#include <cuda.h>

#include "kda/status.hpp"

namespace kda::launch {

// TABLE: every call that this library, its tools and its tests make.  A name may be cuda.h's macro
// for a versioned one; REQUIRED ones are in every driver since CUDA 12.0.
// clang-format off
#define KDA_DRIVER_CALLS(REQUIRED, OPTIONAL)                                                      \
  REQUIRED(Init) REQUIRED(DriverGetVersion) REQUIRED(GetErrorName) REQUIRED(GetErrorString)       \
  REQUIRED(DeviceGet) REQUIRED(DeviceGetCount) REQUIRED(DeviceGetName)                            \
  REQUIRED(DeviceGetAttribute) REQUIRED(DeviceTotalMem)                                           \
  REQUIRED(DevicePrimaryCtxRetain) REQUIRED(DevicePrimaryCtxRelease)                              \
  REQUIRED(DevicePrimaryCtxGetState) REQUIRED(DevicePrimaryCtxReset)                              \
  REQUIRED(CtxGetCurrent) REQUIRED(CtxSetCurrent) REQUIRED(CtxGetDevice) REQUIRED(CtxSynchronize) \
  REQUIRED(LibraryLoadData) REQUIRED(LibraryUnload) REQUIRED(LibraryGetKernel)                    \
  REQUIRED(KernelSetAttribute) REQUIRED(KernelGetAttribute) REQUIRED(KernelGetFunction)           \
  REQUIRED(FuncGetAttribute) OPTIONAL(FuncLoad) /* since 12.4 */                                  \
  REQUIRED(LaunchKernelEx) REQUIRED(OccupancyMaxActiveBlocksPerMultiprocessor)                    \
  REQUIRED(MemAlloc) REQUIRED(MemFree) REQUIRED(MemGetInfo)                                       \
  REQUIRED(MemPoolCreate) REQUIRED(MemPoolDestroy) REQUIRED(MemPoolSetAttribute)                  \
  REQUIRED(MemAllocFromPoolAsync) REQUIRED(MemFreeAsync)                                          \
  REQUIRED(MemcpyHtoD) REQUIRED(MemcpyDtoH) REQUIRED(MemcpyDtoD)                                  \
  REQUIRED(MemcpyHtoDAsync) REQUIRED(MemcpyDtoHAsync) REQUIRED(MemcpyDtoDAsync)                   \
  REQUIRED(MemsetD8) REQUIRED(MemsetD16) REQUIRED(MemsetD32)                                      \
  REQUIRED(MemsetD8Async) REQUIRED(MemsetD16Async) REQUIRED(MemsetD32Async)                       \
  REQUIRED(TensorMapEncodeTiled)                                                                  \
  REQUIRED(StreamCreate) REQUIRED(StreamDestroy) REQUIRED(StreamSynchronize)                      \
  REQUIRED(StreamWaitEvent) REQUIRED(StreamIsCapturing)                                           \
  REQUIRED(ThreadExchangeStreamCaptureMode)                                                       \
  REQUIRED(StreamBeginCapture) REQUIRED(StreamEndCapture)                                         \
  REQUIRED(GraphInstantiate) REQUIRED(GraphLaunch) REQUIRED(GraphExecDestroy) REQUIRED(GraphDestroy)\
  /* what a kept graph takes; without them plans launch their kernels one by one */               \
  OPTIONAL(CtxGetId) OPTIONAL(StreamGetCtx) OPTIONAL(GraphGetNodes) OPTIONAL(GraphUpload)         \
  OPTIONAL(GraphKernelNodeGetParams) OPTIONAL(GraphExecKernelNodeSetParams)                       \
  REQUIRED(EventCreate) REQUIRED(EventRecord) REQUIRED(EventSynchronize)                          \
  REQUIRED(EventElapsedTime) REQUIRED(EventDestroy)
// clang-format on

// One field a call; names as in cuda.h without the cu.  Null where an OPTIONAL one is missing.
struct Driver {
#define KDA_DRIVER_FIELD(Name) decltype(&::cu##Name) Name = nullptr;
  KDA_DRIVER_CALLS(KDA_DRIVER_FIELD, KDA_DRIVER_FIELD)
#undef KDA_DRIVER_FIELD

  int version = 0;  // 12040: the newest CUDA that this driver serves
};

// Opened, filled and initialised on the first call; success and failure alike are kept.  Fails with
// device_error: libcuda.so.1 is missing (why the loader refused), too old, cuInit failed, or this
// process was forked from one that had used CUDA.
Result<const Driver*> driver();

// ok, or device_error "<what>: CUDA_ERROR_X (meaning)".
Status check(CUresult result, const char* what);

// The last failure that check() met on this thread; CUDA_SUCCESS where there was none since the
// last forget_refusal().
CUresult refusal() noexcept;
void forget_refusal() noexcept;
// Whether that was of machine code which this driver or device does not take.
bool refused_code() noexcept;

// For tests: finds each call by its full name in place of libcuda, and forgets the driver opened so
// far; null goes back to libcuda.
using FindSymbol = void* (*)(const char* name);
void replace_driver_for_tests(FindSymbol find);

// Another number after each such replacement: what was made by the former driver is no longer good.
unsigned driver_generation() noexcept;

}  // namespace kda::launch
