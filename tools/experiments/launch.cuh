// What launch.cu launches and how: calls of a few tiny kernels with parameters as large as those of
// strategy chunk's stages, and a gate before them.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>

#include "abi/chunk.h"
#include "bench.cuh"
#include "ptx/dependent.cuh"

#define DRIVER(call)                                                     \
  do {                                                                   \
    const CUresult error_ = (call);                                      \
    if (error_ != CUDA_SUCCESS) {                                        \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                   kda::launches::name_of(error_));                      \
      std::exit(1);                                                      \
    }                                                                    \
  } while (false)

namespace kda::launches {

constexpr int most_kernels = 3;  // a call
constexpr int ours = sizeof(abi::chunk::RecurrenceArgs);
constexpr int threads = 32;

inline const char* name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "unknown";
}

struct Head {
  int* slot;   // where the kernel writes
  int value;   // what it writes
  int number;  // of the kernel in its call
  int clocks;  // how long it takes
};

template <int bytes>
struct Params {
  Head head;
  char rest[bytes - sizeof(Head)];
};

// Number only makes kernels of one call different ones, as a plan's are.
template <int bytes, int number>
__global__ void stage(const __grid_constant__ Params<bytes> p) {
  ptx::wait_for_previous();
  ptx::launch_dependents();
  const i64 begin = clock64();
  while (clock64() - begin < p.head.clocks) {
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.head.slot = p.head.value;
}

template <int bytes>
const void* stage_of(int number) {
  static const std::array<const void*, most_kernels> all = {
      reinterpret_cast<const void*>(stage<bytes, 0>),
      reinterpret_cast<const void*>(stage<bytes, 1>),
      reinterpret_cast<const void*>(stage<bytes, 2>)};
  return all[number];
}

inline const void* stage_of(int bytes, int number) {
  return bytes == ours  ? stage_of<ours>(number)
         : bytes == 600 ? stage_of<600>(number)
                        : stage_of<1000>(number);
}

// The kernels of a call that may be launched before the one before them has ended.
enum class Programmatic { none, later, all };

struct Setting {
  int kernels = 2;
  int bytes = ours;
  Programmatic programmatic = Programmatic::all;
  bool buffer = false;    // parameters by CU_LAUNCH_PARAM_BUFFER_POINTER
  bool function = false;  // by CUfunction, else by CUkernel as the library does
  bool classic = false;   // by cuLaunchKernel, which has no attributes
  unsigned blocks = 1;
  unsigned shared_bytes = 0;
  int clocks = 0;
};

// A word for each kernel of each call, to see that all ran with their own parameters.
class Slots {
 public:
  static constexpr int calls = 2000;
  Slots() { CHECK(cudaMalloc(&words_, sizeof(int) * calls * most_kernels)); }
  int* at(int call, int number) const { return words_ + call * most_kernels + number; }
  static int value(int call) { return call + 1; }

  void clear() {
    CHECK(cudaMemset(words_, 0, sizeof(int) * calls * most_kernels));
    CHECK(cudaDeviceSynchronize());  // the stream measured does not wait for it
  }
  bool right(int count, int kernels) const {
    std::vector<int> words(calls * most_kernels);
    CHECK(cudaMemcpy(words.data(), words_, words.size() * sizeof(int), cudaMemcpyDeviceToHost));
    for (int call = 0; call < count; ++call) {
      for (int number = 0; number < kernels; ++number) {
        if (words[call * most_kernels + number] != value(call)) return false;
      }
    }
    return true;
  }

 private:
  int* words_ = nullptr;
};

class Call {
 public:
  Call(const Setting& setting, const Slots& slots) : setting_(setting), slots_(slots) {
    for (int number = 0; number < setting.kernels; ++number) {
      Kernel& kernel = kernels_[number];
      const void* symbol = stage_of(setting.bytes, number);
      cudaKernel_t handle = nullptr;
      CHECK(cudaGetKernel(&handle, symbol));
      CHECK(cudaGetFuncBySymbol(&kernel.function, symbol));
      CHECK(cudaFuncSetAttribute(symbol, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(setting.shared_bytes)));
      kernel.launched = setting.function ? kernel.function : reinterpret_cast<CUfunction>(handle);
      kernel.params.head.number = number;
      kernel.params.head.clocks = setting.clocks;
    }
    set(0);
  }

  const Setting& setting() const { return setting_; }

  // Parameters of call i, which its kernels copy when they are launched or a graph's nodes set.
  void set(int i) {
    for (int number = 0; number < setting_.kernels; ++number) {
      kernels_[number].params.head.slot = slots_.at(i, number);
      kernels_[number].params.head.value = Slots::value(i);
    }
  }

  CUresult launch(CUstream stream) {
    for (int number = 0; number < setting_.kernels; ++number) {
      const CUresult result = launch(number, stream);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }

  void* params(int number) { return &kernels_[number].params; }

 private:
  struct Kernel {
    cudaFunction_t function = nullptr;
    CUfunction launched = nullptr;
    Params<1000> params = {};  // its first `bytes`
  };

  CUresult launch(int number, CUstream stream) {
    Kernel& kernel = kernels_[number];
    std::size_t bytes = setting_.bytes;
    void* pointers[] = {&kernel.params};
    void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &kernel.params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                      &bytes, CU_LAUNCH_PARAM_END};
    void** plain = setting_.buffer ? nullptr : pointers;
    void** extra = setting_.buffer ? packed : nullptr;
    if (setting_.classic) {
      return cuLaunchKernel(kernel.launched, setting_.blocks, 1, 1, threads, 1, 1,
                            setting_.shared_bytes, stream, plain, extra);
    }
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    const bool programmatic = setting_.programmatic == Programmatic::all ||
                              (setting_.programmatic == Programmatic::later && number > 0);
    CUlaunchConfig config = {};
    config.gridDimX = setting_.blocks;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = setting_.shared_bytes;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = programmatic ? 1 : 0;
    return cuLaunchKernelEx(&config, kernel.launched, plain, extra);
  }

  Setting setting_;
  const Slots& slots_;
  std::array<Kernel, most_kernels> kernels_;
};

__global__ void hold(const volatile int* opened, int number, int* overdue) {
  constexpr i64 patience = 5'000'000;  // ns, lest a host that waits for the stream waits for ever
  const auto now = [] {
    i64 ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
  };
  const i64 begin = now();
  while (*opened < number) {
    if (now() - begin > patience) {
      *overdue += 1;
      return;
    }
    __nanosleep(200);
  }
}

// Holds a stream's work back until opened, so that what is enqueued meanwhile meets a busy GPU.
class Gate {
 public:
  Gate() {
    CHECK(cudaHostAlloc(&words_, 256, cudaHostAllocMapped));
    words_[0] = words_[32] = 0;  // the number opened, and how often patience ended
  }
  void shut(CUstream stream) {
    hold<<<1, 1, 0, stream>>>(words_, ++number_, words_ + 32);
    CHECK(cudaGetLastError());
  }
  void open() { *static_cast<volatile int*>(words_) = number_; }
  int overdue() const { return *static_cast<volatile int*>(words_ + 32); }

 private:
  int* words_ = nullptr;
  int number_ = 0;
};

}  // namespace kda::launches
