#include "launch/graph_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "launch/driver.hpp"
#include "launch/relaxed_capture.hpp"

namespace kda::launch {
namespace {

using Graphs = std::array<KeptGraph, GraphPool::kStreams>;

// Of the current context, joined to no other stream's work.
class OwnStream {
 public:
  explicit OwnStream(const Driver& driver) : driver_(driver) {
    status_ = check(driver.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  ~OwnStream() {
    if (status_) (void)driver_.StreamDestroy(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const Status& status() const { return status_; }
  CUstream get() const { return stream_; }

 private:
  const Driver& driver_;
  CUstream stream_ = nullptr;
  Status status_;
};

Status refuse(const char* why) { return {Code::device_error, why}; }

bool has_calls(const Driver& driver) {
  return driver.CtxGetId != nullptr && driver.StreamGetCtx != nullptr &&
         driver.GraphGetNodes != nullptr && driver.GraphUpload != nullptr &&
         driver.GraphKernelNodeGetParams != nullptr &&
         driver.GraphExecKernelNodeSetParams != nullptr;
}

// In the current context.
Result<Graphs> make_graphs(const Driver& driver, std::span<const GraphPool::Kernel> kernels) {
  const RelaxedCapture relaxed(driver);
  const OwnStream stream(driver);
  if (!stream.status()) return stream.status();
  Graphs graphs;
  for (KeptGraph& graph : graphs) {
    Result<KeptGraph> made = KeptGraph::make(driver, kernels, stream.get());
    if (!made) return made.status();
    graph = *std::move(made);
  }
  if (Status status = check(driver.StreamSynchronize(stream.get()), "cuStreamSynchronize");
      !status) {
    return status;
  }
  return graphs;
}

}  // namespace

Result<std::shared_ptr<GraphPool>> GraphPool::in_context(std::vector<Kernel> kernels, int ordinal,
                                                         const std::shared_ptr<GraphPool>& before) {
  const Result<const Driver*> found = driver();
  if (!found) return found.status();
  if (!has_calls(**found)) return refuse("the driver lacks a call");
  CUdevice device = 0;
  if (Status status = check((*found)->DeviceGet(&device, ordinal), "cuDeviceGet"); !status) {
    return status;
  }
  const ContextScope scope(**found, device);
  if (!scope.status()) return scope.status();
  const std::optional<ContextName> context = current_context(**found);
  if (!context) return refuse("the driver does not name its context");
  if (before != nullptr && before->context_ == *context) return before;
  Result<Graphs> graphs = make_graphs(**found, kernels);
  if (!graphs) return graphs.status();
  for (Kernel& kernel : kernels) kernel.module = kernel.module.parked();
  return std::make_shared<GraphPool>(std::move(kernels), *context, *std::move(graphs));
}

std::shared_ptr<GraphPool> GraphPool::or_none(Result<std::shared_ptr<GraphPool>> made) {
  if (made) return *std::move(made);
  forget_refusal();  // no failure of the caller's
  if (base::log::enabled(LogLevel::debug)) {
    base::log::debug("kernels will be launched one by one: " + made.status().message());
  }
  return nullptr;
}

std::shared_ptr<GraphPool> GraphPool::make(std::vector<Kernel> kernels, int ordinal) {
  if (kernels.size() < 2) return nullptr;
  return or_none(in_context(std::move(kernels), ordinal, nullptr));
}

std::shared_ptr<GraphPool> GraphPool::renewed(const std::shared_ptr<GraphPool>& pool, int ordinal) {
  return or_none(in_context(pool->kernels_, ordinal, pool));
}

GraphPool::GraphPool(std::vector<Kernel> kernels, const ContextName& context, Graphs graphs)
    : kernels_(std::move(kernels)), context_(context), driver_(driver_generation()) {
  for (std::size_t i = 0; i < kStreams; ++i) slots_[i].graph = std::move(graphs[i]);
}

GraphPool::~GraphPool() {
  const Result<const Driver*> found = driver();
  if (!found || driver_ != driver_generation() || !alive(**found, context_)) {
    for (Slot& slot : slots_) slot.graph.forget();
    return;
  }
  const RelaxedCapture relaxed(**found);
  for (Slot& slot : slots_) slot.graph = KeptGraph();
}

// Legacy and null are one stream; the thread's own is another for each thread.  A handle may come
// again for another stream: as good as the one before, if it is of this context.
bool GraphPool::serves(const Driver& driver, CUstream stream) const {
  if (stream == CU_STREAM_PER_THREAD || driver_ != driver_generation()) return false;
  // A driver ends the process where a thread without a context sets a graph's arguments (580, CUDA
  // 13).
  CUcontext current = nullptr;
  if (driver.CtxGetCurrent(&current) != CUDA_SUCCESS || current != context_.handle) return false;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  ContextName context;
  return driver.StreamIsCapturing(stream, &capturing) == CUDA_SUCCESS &&
         capturing == CU_STREAM_CAPTURE_STATUS_NONE &&
         driver.StreamGetCtx(stream, &context.handle) == CUDA_SUCCESS &&
         driver.CtxGetId(context.handle, &context.id) == CUDA_SUCCESS && context == context_;
}

// A graph that another stream's launch of it may still keep busy would make this one wait.
GraphPool::Slot* GraphPool::take(CUstream stream) {
  if (stream == nullptr) stream = CU_STREAM_LEGACY;
  for (Slot& slot : slots_) {
    CUstream owner = slot.stream.load(std::memory_order_relaxed);
    if (owner == nullptr && slot.stream.compare_exchange_strong(owner, stream)) owner = stream;
    if (owner != stream) continue;
    return slot.taken.exchange(true, std::memory_order_acquire) ? nullptr : &slot;
  }
  return nullptr;
}

bool GraphPool::launch(std::span<const Call> calls, CUstream stream) {
  const auto empty = [](const Call& call) {
    return call.grid[0] == 0 || call.grid[1] == 0 || call.grid[2] == 0;
  };
  if (std::any_of(calls.begin(), calls.end(), empty)) return false;
  const Result<const Driver*> found = driver();
  if (!found || !serves(**found, stream)) return false;
  Slot* slot = take(stream);
  if (slot == nullptr) return false;
  CUresult result = CUDA_SUCCESS;
  for (std::size_t i = 0; i < calls.size() && result == CUDA_SUCCESS; ++i) {
    result = slot->graph.set(**found, i, calls[i].grid, calls[i].args);
  }
  if (result == CUDA_SUCCESS) result = slot->graph.launch(**found, stream);
  // Where the thread's context has gone meanwhile, a launch says so in words.
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_CONTEXT) {
    slot->taken.store(false, std::memory_order_release);
    return result == CUDA_SUCCESS;
  }
  if (base::log::enabled(LogLevel::debug)) {
    base::log::debug(fmt::format("a kept graph was refused (CUresult {}) and is not used again",
                                 static_cast<int>(result)));
  }
  return false;
}

}  // namespace kda::launch
