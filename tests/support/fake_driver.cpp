#include "support/fake_driver.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>

#include "launch/driver.hpp"

namespace kda::test {
namespace {

FakeDriver* fake = nullptr;

template <class Handle>
Handle handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

CUresult unsupported() { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult init(unsigned) {
  if (fake->init_forks) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
  return fake->init_result;
}
CUresult version(int* version) {
  *version = 12040;
  return CUDA_SUCCESS;
}
CUresult error_name(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
CUresult error_string(CUresult, const char** text) {
  *text = "as the driver puts it";
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal < fake->devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult device_count(int* count) {
  *count = fake->devices;
  return CUDA_SUCCESS;
}
CUresult device_name(char* name, int bytes, CUdevice device) {
  std::strncpy(name, device == 0 ? "Fake 0" : "Fake 1", static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, CUdevice_attribute which, CUdevice) {
  const std::map<CUdevice_attribute, int> values = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, fake->capability[0]},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, fake->capability[1]},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, fake->memory_clock},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144}};
  const auto row = values.find(which);
  if (row == values.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = row->second;
  return CUDA_SUCCESS;
}
void note_breaking_call() {
  if (fake->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) ++fake->breaking_calls;
}
CUresult primary_state(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = static_cast<int>(fake->alive.count(FakeDriver::primary(device)));
  return CUDA_SUCCESS;
}
CUresult primary_retain(CUcontext* context, CUdevice device) {
  ++fake->primaries_retained;
  *context = FakeDriver::primary(device);
  fake->alive.insert(*context);
  return CUDA_SUCCESS;
}
CUresult primary_release(CUdevice device) {
  if (++fake->primaries_released == fake->primaries_retained) {
    fake->alive.erase(FakeDriver::primary(device));
  }
  return CUDA_SUCCESS;
}
CUresult context_get(CUcontext* context) {
  *context = fake->current;
  return CUDA_SUCCESS;
}
CUresult context_set(CUcontext context) {
  if (context != nullptr && fake->alive.count(context) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  fake->current = context;
  return CUDA_SUCCESS;
}
// Of a destroyed context as well: so does an H200's driver (580).
CUresult context_device(CUdevice* device) {
  if (fake->current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = fake->current_device;
  return CUDA_SUCCESS;
}
CUresult current_serves() {
  if (fake->current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return fake->alive.count(fake->current) > 0 ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
CUresult event_create(CUevent* event, unsigned) {
  const CUresult result = current_serves();
  if (result != CUDA_SUCCESS) return result;
  *event = handle<CUevent>(0x300U);
  ++fake->events;
  return CUDA_SUCCESS;
}
CUresult event_destroy(CUevent) {
  --fake->events;
  return CUDA_SUCCESS;
}
CUresult library_load(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                      CUlibraryOption*, void**, unsigned) {
  note_breaking_call();
  if (fake->load_result != CUDA_SUCCESS) return fake->load_result;
  if (const CUresult result = current_serves(); result != CUDA_SUCCESS) return result;
  *library = handle<CUlibrary>(0x1000U + static_cast<unsigned>(++fake->libraries_loaded));
  return CUDA_SUCCESS;
}
CUresult library_unload(CUlibrary) {
  note_breaking_call();
  ++fake->libraries_unloaded;
  return CUDA_SUCCESS;
}
CUresult library_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (std::string_view(name) == "absent") return CUDA_ERROR_NOT_FOUND;
  *kernel = handle<CUkernel>(reinterpret_cast<std::uintptr_t>(library) * 16 +
                             std::string_view(name).size());
  return CUDA_SUCCESS;
}
CUresult kernel_set(CUfunction_attribute which, int value, CUkernel, CUdevice device) {
  fake->attributes.push_back({which, value, device});
  return CUDA_SUCCESS;
}
CUresult kernel_function(CUfunction* function, CUkernel kernel) {
  if (const CUresult result = current_serves(); result != CUDA_SUCCESS) return result;
  fake->context_of_load = fake->current;
  *function = handle<CUfunction>(reinterpret_cast<std::uintptr_t>(kernel) + 1);
  return CUDA_SUCCESS;
}
CUresult function_load(CUfunction) {
  ++fake->functions_loaded;
  return CUDA_SUCCESS;
}
CUresult function_attribute(int* value, CUfunction_attribute, CUfunction function) {
  *value = 32;
  return function_load(function);
}
CUresult pool_create(CUmemoryPool* pool, const CUmemPoolProps* props) {
  note_breaking_call();
  fake->pool_devices.push_back(props->location.id);
  *pool = handle<CUmemoryPool>(0x400U + static_cast<unsigned>(++fake->pools));
  return CUDA_SUCCESS;
}
CUresult pool_destroy(CUmemoryPool) {
  ++fake->destroyed_pools;
  return CUDA_SUCCESS;
}
// A map's bytes are its number among all, counted from 1.
CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (fake->encode_result != CUDA_SUCCESS) return fake->encode_result;
  fake->tensor_maps.push_back({type,
                               data,
                               {sizes, sizes + rank},
                               {strides, strides + rank - 1},
                               {box, box + rank},
                               swizzle});
  std::memset(map, static_cast<int>(fake->tensor_maps.size()), sizeof *map);
  return CUDA_SUCCESS;
}
CUresult pool_set(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult pool_allocate(CUdeviceptr* at, std::size_t bytes, CUmemoryPool pool, CUstream) {
  if (reinterpret_cast<std::uintptr_t>(pool) <=
      0x400U + static_cast<std::uintptr_t>(fake->lost_pools)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (fake->allocate_result != CUDA_SUCCESS) return fake->allocate_result;
  fake->allocations.push_back(bytes);
  fake->pools_asked.push_back(
      fake->pool_devices.at(reinterpret_cast<std::uintptr_t>(pool) - 0x401U));
  *at = fake->allocations.size() << 32;
  return CUDA_SUCCESS;
}
CUresult free_async(CUdeviceptr, CUstream) {
  ++fake->freed;
  return CUDA_SUCCESS;
}
CUresult is_capturing(CUstream, CUstreamCaptureStatus* status) {
  *status = fake->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult launch(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  int argument = 0;
  std::memcpy(&argument, parameters[0], sizeof argument);
  const auto* bytes = static_cast<const std::byte*>(parameters[0]);
  const FakeLaunch launch{*config,
                          {config->attrs, config->attrs + config->numAttrs},
                          function,
                          argument,
                          {bytes, bytes + fake->bytes_kept}};
  if (!fake->graphs.capturing(config->hStream)) {
    fake->launches.push_back(launch);
  } else if (fake->launch_result == CUDA_SUCCESS) {
    fake->graphs.capture(launch);
  }
  return fake->launch_result;
}
CUresult context_id(CUcontext context, unsigned long long* id) {
  if (fake->alive.count(context) == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = reinterpret_cast<std::uintptr_t>(context) + (fake->resets << 32);
  return CUDA_SUCCESS;
}
CUresult stream_context(CUstream stream, CUcontext* context) {
  const bool special =
      stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  *context = special ? fake->current : fake->stream_context;
  return *context != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult stream_create(CUstream* stream, unsigned) {
  if (const CUresult result = current_serves(); result != CUDA_SUCCESS) return result;
  *stream = handle<CUstream>(0x500U + static_cast<unsigned>(++fake->streams));
  return CUDA_SUCCESS;
}
CUresult stream_destroy(CUstream) {
  --fake->streams;
  return CUDA_SUCCESS;
}
CUresult stream_synchronize(CUstream) { return CUDA_SUCCESS; }
CUresult exchange_mode(CUstreamCaptureMode* mode) {
  std::swap(*mode, fake->capture_mode);
  return CUDA_SUCCESS;
}
CUresult begin_capture(CUstream stream, CUstreamCaptureMode) { return fake->graphs.begin(stream); }
CUresult end_capture(CUstream stream, CUgraph* graph) { return fake->graphs.end(stream, graph); }
CUresult graph_nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return fake->graphs.nodes(graph, nodes, count);
}
CUresult node_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return fake->graphs.params(node, params);
}
CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  return fake->graphs.instantiate(executable, graph, fake->current);
}
CUresult graph_upload(CUgraphExec, CUstream) {
  ++fake->graphs.uploads;
  return CUDA_SUCCESS;
}
CUresult graph_set(CUgraphExec executable, CUgraphNode node,
                   const CUDA_KERNEL_NODE_PARAMS* params) {
  if (fake->set_result != CUDA_SUCCESS) return fake->set_result;
  return fake->graphs.set(executable, node, params);
}
CUresult graph_launch(CUgraphExec executable, CUstream stream) {
  if (fake->launch_result != CUDA_SUCCESS) return fake->launch_result;
  return fake->graphs.launch(executable, stream, fake->launches);
}
CUresult graph_destroy(CUgraph graph) { return fake->graphs.destroy(graph); }
CUresult executable_destroy(CUgraphExec executable) {
  const bool alive = fake->alive.count(fake->graphs.context_of(executable)) > 0;
  return fake->graphs.destroy(executable, alive);
}

// A call by its name: counted, refused where the test wants so, one at a time.
template <std::size_t N>
struct Name {
  constexpr Name(const char (&from)[N]) { std::copy_n(from, N, text); }  // NOLINT
  char text[N];
};

template <Name name, auto call>
struct Guarded;
template <Name name, class... Args, CUresult (*call)(Args...)>
struct Guarded<name, call> {
  static CUresult run(Args... args) {
    const std::lock_guard lock(fake->mutex);
    if (++fake->calls == fake->fail_at) return CUDA_ERROR_UNKNOWN;
    if (fake->refuse_once == name.text) {
      fake->refuse_once.clear();
      return fake->refuse_with;
    }
    return call(args...);
  }
};

template <Name name, auto call>
std::pair<std::string_view, void*> row() {
  static constexpr Name kept = name;
  return {kept.text, reinterpret_cast<void*>(Guarded<name, call>::run)};
}

void* find(const char* name) {
  if (fake->missing == name) return nullptr;
  static const std::map<std::string_view, void*> calls = {
      row<"cuInit", init>(),
      row<"cuDriverGetVersion", version>(),
      {"cuGetErrorName", reinterpret_cast<void*>(error_name)},
      {"cuGetErrorString", reinterpret_cast<void*>(error_string)},
      row<"cuDeviceGet", device_get>(),
      row<"cuDeviceGetCount", device_count>(),
      row<"cuDeviceGetName", device_name>(),
      row<"cuDeviceGetAttribute", device_attribute>(),
      row<"cuDevicePrimaryCtxGetState", primary_state>(),
      row<"cuDevicePrimaryCtxRetain", primary_retain>(),
      row<"cuDevicePrimaryCtxRelease_v2", primary_release>(),
      row<"cuCtxGetCurrent", context_get>(),
      row<"cuCtxSetCurrent", context_set>(),
      row<"cuCtxGetDevice", context_device>(),
      row<"cuEventCreate", event_create>(),
      row<"cuEventDestroy_v2", event_destroy>(),
      row<"cuLibraryLoadData", library_load>(),
      row<"cuLibraryUnload", library_unload>(),
      row<"cuLibraryGetKernel", library_kernel>(),
      row<"cuKernelSetAttribute", kernel_set>(),
      row<"cuKernelGetFunction", kernel_function>(),
      row<"cuFuncLoad", function_load>(),
      row<"cuFuncGetAttribute", function_attribute>(),
      row<"cuLaunchKernelEx", launch>(),
      row<"cuMemPoolCreate", pool_create>(),
      row<"cuMemPoolDestroy", pool_destroy>(),
      row<"cuTensorMapEncodeTiled", encode>(),
      row<"cuMemPoolSetAttribute", pool_set>(),
      row<"cuMemAllocFromPoolAsync", pool_allocate>(),
      row<"cuMemFreeAsync", free_async>(),
      row<"cuStreamIsCapturing", is_capturing>(),
      row<"cuStreamGetCtx", stream_context>(),
      row<"cuCtxGetId", context_id>(),
      row<"cuStreamCreate", stream_create>(),
      row<"cuStreamDestroy_v2", stream_destroy>(),
      row<"cuStreamSynchronize", stream_synchronize>(),
      row<"cuThreadExchangeStreamCaptureMode", exchange_mode>(),
      row<"cuStreamBeginCapture_v2", begin_capture>(),
      row<"cuStreamEndCapture", end_capture>(),
      row<"cuGraphGetNodes", graph_nodes>(),
      row<"cuGraphKernelNodeGetParams_v2", node_params>(),
      row<"cuGraphInstantiateWithFlags", graph_instantiate>(),
      row<"cuGraphUpload", graph_upload>(),
      row<"cuGraphExecKernelNodeSetParams_v2", graph_set>(),
      row<"cuGraphLaunch", graph_launch>(),
      row<"cuGraphDestroy", graph_destroy>(),
      row<"cuGraphExecDestroy", executable_destroy>(),
  };
  const auto row = calls.find(name);
  return row != calls.end() ? row->second : reinterpret_cast<void*>(unsupported);
}

}  // namespace

FakeDriver::FakeDriver() : outer_(fake) {
  fake = this;
  launch::replace_driver_for_tests(find);
}

FakeDriver::~FakeDriver() {
  launch::replace_driver_for_tests(outer_ == nullptr ? nullptr : find);
  fake = outer_;
}

CUcontext FakeDriver::primary(CUdevice device) {
  return handle<CUcontext>(0x100U + static_cast<unsigned>(device));
}
CUcontext FakeDriver::own_context() { return handle<CUcontext>(0x200U); }

}  // namespace kda::test
