// A driver without a device: memory is the host's, events read the host's clock, graphs replay what
// was launched, and the `recurrent` kernel is the reference.  It lets the tools run whole where
// there is no GPU.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "abi/recurrent.h"
#include "launch/driver.hpp"
#include "reference/dtype.hpp"
#include "reference/tensors.hpp"

namespace kda::test {

class FakeGpu {
 public:
  // What the next launches compute; kernels know their problem, a driver does not.
  reference::Tensors shape;
  reference::Tensors small;  // of launches with this many tokens: what a tuner verifies on
  std::vector<reference::Tensors> others;  // likewise, by their tokens
  int devices = 1;
  double o_factor = 1;  // of a kernel that is wrong
  bool writes = true;   // false: a kernel that does nothing
  int launches = 0;
  CUstreamCaptureStatus capture =
      CU_STREAM_CAPTURE_STATUS_NONE;      // of any stream but the legacy one
  CUresult legacy_stream = CUDA_SUCCESS;  // what asking about that answers

  FakeGpu() {
    current() = this;
    launch::replace_driver_for_tests(&find);
  }
  ~FakeGpu() {
    launch::replace_driver_for_tests(nullptr);
    current() = nullptr;
  }
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  using Graph = std::vector<abi::recurrent::StepArgs<false>>;

  static FakeGpu*& current() {
    static FakeGpu* gpu = nullptr;
    return gpu;
  }

  static reference::Bytes copied(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    return data == nullptr ? reference::Bytes() : reference::Bytes(from, from + bytes);
  }

  static std::vector<float> floats(const float* data, int count) {
    return data == nullptr ? std::vector<float>() : std::vector<float>(data, data + count);
  }

  const reference::Tensors& shape_of(std::int64_t tokens) const {
    if (small.tokens > 0 && tokens == small.tokens) return small;
    for (const reference::Tensors& each : others) {
      if (tokens == each.tokens) return each;
    }
    return shape;
  }

  void run(const abi::recurrent::StepArgs<false>& args) {
    ++launches;
    if (!writes) return;
    const reference::Tensors& shape = shape_of(args.in.tokens);
    const Problem& p = shape.problem;
    reference::Tensors t = shape;
    t.q = copied(args.in.q.data, shape.q.size());
    t.k = copied(args.in.k.data, shape.k.size());
    t.v = copied(args.in.v.data, shape.v.size());
    t.g = copied(args.in.g.data, shape.g.size());
    t.beta = copied(args.in.beta.data, shape.beta.size());
    t.A_log = floats(args.in.A_log, p.value_heads);
    t.dt_bias = floats(args.in.dt_bias, p.value_heads * p.key_dim);
    if (p.varlen) {  // i64 in all the tests' problems
      const auto* ends = static_cast<const std::int64_t*>(args.in.cu_seqlens);
      t.cu_seqlens.assign(ends, ends + args.in.sequences + 1);
    }
    const auto had = static_cast<std::size_t>(shape.sequences());
    t.initial_state = copied(args.out.initial_state, shape.initial_state.size() / had *
                                                         static_cast<std::size_t>(t.sequences()));
    const reference::Outputs truth = reference::recurrence(reference::reference_inputs(t));
    void* o = const_cast<void*>(args.out.o.data);
    for (std::size_t i = 0; i < truth.o.size(); ++i) {
      reference::store(p.qkv_type, o, i, o_factor * truth.o[i]);
    }
    const auto K = static_cast<std::size_t>(p.key_dim), V = static_cast<std::size_t>(p.value_dim);
    for (std::size_t i = 0; args.out.final_state != nullptr && i < truth.final_state.size(); ++i) {
      const std::size_t k = i / V % K, v = i % V;  // the reference's is key-first
      const bool same = p.state_layout == StateLayout::key_first;
      reference::store(p.state_type, args.out.final_state, same ? i : i - k * V - v + v * K + k,
                       truth.final_state[i]);
    }
  }

  template <class Pointer>
  static void* address(Pointer function) {
    void* pointer = nullptr;
    std::memcpy(&pointer, &function, sizeof pointer);
    return pointer;
  }

  static CUresult ok() { return CUDA_SUCCESS; }

  static CUresult attribute(int* value, CUdevice_attribute which, CUdevice) {
    switch (which) {
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        break;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        break;
      case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 4096;
        break;
      case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = 3'000'000;
        break;
      case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = 6144;
        break;
      default:
        *value = 232448;
    }
    return CUDA_SUCCESS;
  }

  static void* find(const char* name) {
    static const std::map<std::string, void*> calls = table();
    std::string plain = name;
    for (const char* suffix : {"_v2", "_v3", "_v4", "WithFlags"}) {
      if (plain.ends_with(suffix)) plain.resize(plain.size() - std::strlen(suffix));
    }
    const auto at = calls.find(plain);
    return at != calls.end() ? at->second : address(&ok);
  }

  static std::map<std::string, void*> table();

  bool capturing_ = false;
  Graph captured_;
  std::map<CUevent, Clock::time_point> events_;
};

inline std::map<std::string, void*> FakeGpu::table() {
  std::map<std::string, void*> calls;
  const auto add = [&](const char* name, auto function) { calls[name] = address(+function); };
  add("cuDriverGetVersion", [](int* v) { return *v = 13000, CUDA_SUCCESS; });
  add("cuGetErrorName", [](CUresult, const char** t) { return *t = "FAKE", CUDA_SUCCESS; });
  add("cuGetErrorString", [](CUresult, const char** t) { return *t = "fake", CUDA_SUCCESS; });
  add("cuDeviceGet", [](CUdevice* d, int i) { return *d = i, CUDA_SUCCESS; });
  add("cuDeviceGetCount", [](int* n) { return *n = current()->devices, CUDA_SUCCESS; });
  add("cuDeviceGetName", [](char* name, int n, CUdevice) {
    return std::strncpy(name, "Fake GPU", static_cast<std::size_t>(n)), CUDA_SUCCESS;
  });
  calls["cuDeviceGetAttribute"] = address(&attribute);
  add("cuCtxGetCurrent", [](CUcontext* c) { return *c = nullptr, CUDA_SUCCESS; });
  add("cuDevicePrimaryCtxRetain",
      [](CUcontext* c, CUdevice) { return *c = reinterpret_cast<CUcontext>(8), CUDA_SUCCESS; });
  add("cuLibraryLoadData",
      [](CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
         unsigned) { return *library = reinterpret_cast<CUlibrary>(8), CUDA_SUCCESS; });
  add("cuLibraryGetKernel", [](CUkernel* kernel, CUlibrary, const char* name) {
    const bool known = std::strcmp(name, "kda_recurrent_step") == 0;
    *kernel = reinterpret_cast<CUkernel>(8);
    return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
  add("cuLaunchKernelEx", [](const CUlaunchConfig*, CUfunction, void** parameters, void**) {
    const auto& args = *static_cast<const abi::recurrent::StepArgs<false>*>(parameters[0]);
    if (current()->capturing_) {
      current()->captured_.push_back(args);
    } else {
      current()->run(args);
    }
    return CUDA_SUCCESS;
  });
  add("cuMemGetInfo", [](std::size_t* free, std::size_t* total) {
    return *free = *total = 64 << 20, CUDA_SUCCESS;
  });
  add("cuMemAlloc", [](CUdeviceptr* at, std::size_t bytes) {
    return *at = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)),
           CUDA_SUCCESS;
  });
  add("cuMemFree",
      [](CUdeviceptr at) { return std::free(reinterpret_cast<void*>(at)), CUDA_SUCCESS; });
  add("cuMemcpyHtoDAsync", [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
    return std::memcpy(reinterpret_cast<void*>(to), from, bytes), CUDA_SUCCESS;
  });
  add("cuMemcpyDtoHAsync", [](void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
    return std::memcpy(to, reinterpret_cast<void*>(from), bytes), CUDA_SUCCESS;
  });
  add("cuMemcpyDtoDAsync", [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
    return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes),
           CUDA_SUCCESS;
  });
  add("cuMemsetD8Async", [](CUdeviceptr to, unsigned char byte, std::size_t bytes, CUstream) {
    return std::memset(reinterpret_cast<void*>(to), byte, bytes), CUDA_SUCCESS;
  });
  add("cuStreamCreate", [](CUstream* stream, unsigned) {
    return *stream = reinterpret_cast<CUstream>(8), CUDA_SUCCESS;
  });
  add("cuStreamIsCapturing", [](CUstream stream, CUstreamCaptureStatus* status) {
    const bool legacy = stream == CU_STREAM_LEGACY;
    *status = legacy ? CU_STREAM_CAPTURE_STATUS_NONE : current()->capture;
    return legacy ? current()->legacy_stream : CUDA_SUCCESS;
  });
  add("cuStreamBeginCapture", [](CUstream, CUstreamCaptureMode) {
    current()->captured_.clear();
    return current()->capturing_ = true, CUDA_SUCCESS;
  });
  add("cuStreamEndCapture", [](CUstream, CUgraph* graph) {
    current()->capturing_ = false;
    *graph = reinterpret_cast<CUgraph>(new Graph(current()->captured_));
    return CUDA_SUCCESS;
  });
  add("cuGraphInstantiate", [](CUgraphExec* executable, CUgraph graph, unsigned long long) {
    *executable = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph)));
    return CUDA_SUCCESS;
  });
  add("cuGraphLaunch", [](CUgraphExec graph, CUstream) {
    for (const auto& args : *reinterpret_cast<Graph*>(graph)) current()->run(args);
    return CUDA_SUCCESS;
  });
  add("cuGraphDestroy",
      [](CUgraph graph) { return delete reinterpret_cast<Graph*>(graph), CUDA_SUCCESS; });
  add("cuGraphExecDestroy",
      [](CUgraphExec graph) { return delete reinterpret_cast<Graph*>(graph), CUDA_SUCCESS; });
  add("cuEventCreate", [](CUevent* event, unsigned) {
    return *event = reinterpret_cast<CUevent>(new int), CUDA_SUCCESS;
  });
  add("cuEventDestroy",
      [](CUevent event) { return delete reinterpret_cast<int*>(event), CUDA_SUCCESS; });
  add("cuEventRecord", [](CUevent event, CUstream) {
    return current()->events_[event] = Clock::now(), CUDA_SUCCESS;
  });
  add("cuEventElapsedTime", [](float* milliseconds, CUevent start, CUevent end) {
    const std::chrono::duration<float, std::milli> passed =
        current()->events_[end] - current()->events_[start];
    return *milliseconds = passed.count(), CUDA_SUCCESS;
  });
  return calls;
}

}  // namespace kda::test
