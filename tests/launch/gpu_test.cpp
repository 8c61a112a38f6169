// The whole of launch/ on a real device: compile, load, launch, capture.
#include <cuda.h>

#include <thread>

#include "compile/nvrtc.hpp"
#include "device/device.hpp"
#include "device/family.hpp"
#include "launch/driver.hpp"
#include "launch/enqueue.hpp"
#include "launch/module.hpp"
#include "support/catch.hpp"

namespace launch = kda::launch;
using kda::test::contains;

namespace {

struct Args {
  int* out;
  int first;
};

std::string cubin_for(const kda::device::Device& device) {
  const auto family = kda::device::family_of(device);
  REQUIRE(family);
  const auto build = kda::compile::compile(
      {.source =
           "struct Args { int* out; int first; };\n"
           "extern \"C\" __global__ void fill(const __grid_constant__ Args args) {\n"
           "  extern __shared__ int shared[];\n"
           "  shared[threadIdx.x] = args.first + int(threadIdx.x);\n"
           "  __syncthreads();\n"
           "  if (threadIdx.x == 0) atomicAdd(args.out + blockIdx.x, shared[blockDim.x - 1]);\n"
           "}\n",
       .entry = "fill",
       .target = family->target,
       .options = kda::compile::options(family->target)},
      {});
  INFO(build.status().message());
  REQUIRE(build);
  return build->cubin;
}

// A primary context, current; four zeroed ints on the device; a stream.
class Stage {
 public:
  explicit Stage(const launch::Driver& driver) : driver_(driver) {
    REQUIRE(driver.DevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS);
    REQUIRE(driver.CtxSetCurrent(context_) == CUDA_SUCCESS);
    REQUIRE(driver.MemAlloc(&memory_, 16) == CUDA_SUCCESS);
    REQUIRE(driver.MemsetD32(memory_, 0, 4) == CUDA_SUCCESS);
    REQUIRE(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(driver.CtxSynchronize() == CUDA_SUCCESS);
  }
  ~Stage() {
    driver_.CtxSetCurrent(context_);
    driver_.StreamDestroy(stream);
    driver_.MemFree(memory_);
    driver_.CtxSetCurrent(nullptr);
    driver_.DevicePrimaryCtxRelease(0);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Args args(int first) const { return {reinterpret_cast<int*>(memory_), first}; }
  std::vector<int> values() const {
    std::vector<int> values(4);
    REQUIRE(driver_.StreamSynchronize(stream) == CUDA_SUCCESS);
    REQUIRE(driver_.MemcpyDtoH(values.data(), memory_, 16) == CUDA_SUCCESS);
    return values;
  }

  CUstream stream = nullptr;

 private:
  const launch::Driver& driver_;
  CUcontext context_ = nullptr;
  CUdeviceptr memory_ = 0;
};

constexpr launch::Geometry kGeometry{.grid = {3, 1, 1}, .threads = 64, .shared_bytes = 90 * 1024};

}  // namespace

TEST_CASE("a kernel compiled here runs here", "[gpu]") {
  const auto device = kda::device::query(0);
  INFO(device.status().message());
  REQUIRE(device);
  CHECK(device->multiprocessors > 0);
  CHECK(device->shared_per_block >= 99 * 1024);
  CHECK(device->memory_bandwidth > 1e11);
  const launch::Driver& driver = **launch::driver();
  Stage stage(driver);
  const auto module =
      launch::Module::load(cubin_for(*device), "fill", 0, kGeometry.shared_bytes, 1);
  INFO(module.status().message());
  REQUIRE(module);
  const Args args = stage.args(100);
  const kda::Status status = launch::enqueue(*module, kGeometry, &args, stage.stream);
  INFO(status.message());
  REQUIRE(status);
  CHECK(stage.values() == std::vector<int>{163, 163, 163, 0});
}

TEST_CASE("a module loads in a thread without a context, and leaves it without", "[gpu]") {
  const auto device = kda::device::query(0);
  REQUIRE(device);
  const launch::Driver& driver = **launch::driver();
  Stage stage(driver);
  const std::string cubin = cubin_for(*device);
  const Args args = stage.args(1);
  std::string trouble;
  std::thread([&] {
    const auto module = launch::Module::load(cubin, "fill", 0, kGeometry.shared_bytes, 1);
    CUcontext current = nullptr;
    if (!module) trouble = module.status().message();
    if (driver.CtxGetCurrent(&current) != CUDA_SUCCESS || current != nullptr) {
      trouble += " the context changed";
    }
    if (module) {  // a stream brings its own context along
      trouble += launch::enqueue(*module, kGeometry, &args, stage.stream).message();
      driver.StreamSynchronize(stage.stream);
    }
  }).join();
  CHECK(trouble == "");
  CHECK(stage.values() == std::vector<int>{64, 64, 64, 0});
}

TEST_CASE("a module loads in a thread whose context was destroyed", "[gpu]") {
  const auto device = kda::device::query(0);
  REQUIRE(device);
  const launch::Driver& driver = **launch::driver();
  const std::string cubin = cubin_for(*device);
  CUcontext gone = nullptr;
  REQUIRE(driver.DevicePrimaryCtxRetain(&gone, 0) == CUDA_SUCCESS);
  REQUIRE(driver.CtxSetCurrent(gone) == CUDA_SUCCESS);
  REQUIRE(driver.DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  const auto module = launch::Module::load(cubin, "fill", 0, kGeometry.shared_bytes, 1);
  INFO(module.status().message());
  REQUIRE(module);
  Stage stage(driver);
  const Args args = stage.args(1);
  CHECK(launch::enqueue(*module, kGeometry, &args, stage.stream).message() == "");
  CHECK(stage.values() == std::vector<int>{64, 64, 64, 0});
}

TEST_CASE("modules loaded before a reset of the device run after it", "[gpu]") {
  const auto device = kda::device::query(0);
  REQUIRE(device);
  const launch::Driver& driver = **launch::driver();
  const std::string cubin = cubin_for(*device);
  const auto load = [&] {
    return launch::Module::load(cubin, "fill", 0, kGeometry.shared_bytes, 1);
  };
  const auto before = load();
  REQUIRE(before);
  REQUIRE(driver.DevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  const auto after = load();
  INFO(after.status().message());
  REQUIRE(after);
  Stage stage(driver);
  const Args args = stage.args(1);
  CHECK(launch::enqueue(*after, kGeometry, &args, stage.stream).message() == "");
  CHECK(stage.values() == std::vector<int>{64, 64, 64, 0});
  CHECK(launch::enqueue(*before, kGeometry, &args, stage.stream).message() == "");
  CHECK(stage.values() == std::vector<int>{128, 128, 128, 0});
}

TEST_CASE("the default stream without a context is an error that says what to do", "[gpu]") {
  const auto device = kda::device::query(0);
  REQUIRE(device);
  Stage stage(**launch::driver());
  const std::string cubin = cubin_for(*device);
  const Args args = stage.args(1);
  kda::Status status;
  std::thread([&] {
    const auto module = launch::Module::load(cubin, "fill", 0, kGeometry.shared_bytes, 1);
    if (module) status = launch::enqueue(*module, kGeometry, &args, nullptr);
  }).join();
  CHECK(status.code() == kda::Code::device_error);
  CHECK_THAT(status.message(), contains("call cudaSetDevice or cuCtxSetCurrent"));
}

TEST_CASE("a first launch may be captured, and replays", "[gpu]") {
  const auto device = kda::device::query(0);
  REQUIRE(device);
  const launch::Driver& driver = **launch::driver();
  Stage stage(driver);
  const auto module =
      launch::Module::load(cubin_for(*device), "fill", 0, kGeometry.shared_bytes, 1);
  REQUIRE(module);
  const Args args = stage.args(1);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  REQUIRE(driver.StreamBeginCapture(stage.stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  launch::Geometry overlapping = kGeometry;
  overlapping.overlaps_previous = device->major >= 9;
  REQUIRE(launch::enqueue(*module, kGeometry, &args, stage.stream));
  REQUIRE(launch::enqueue(*module, overlapping, &args, stage.stream));
  REQUIRE(driver.StreamEndCapture(stage.stream, &graph) == CUDA_SUCCESS);
  REQUIRE(driver.GraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
  CHECK(stage.values() == std::vector<int>{0, 0, 0, 0});
  for (int i = 0; i < 3; ++i) REQUIRE(driver.GraphLaunch(executable, stage.stream) == CUDA_SUCCESS);
  CHECK(stage.values() == std::vector<int>{384, 384, 384, 0});
  driver.GraphExecDestroy(executable);
  driver.GraphDestroy(graph);
}

// Unloading ended it, whichever thread did so: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (H200, 580).
TEST_CASE("kernels come and go beside a capture in the strictest mode", "[gpu]") {
  const auto device = kda::device::query(0);
  REQUIRE(device);
  const launch::Driver& driver = **launch::driver();
  Stage stage(driver);
  const std::string cubin = cubin_for(*device);
  const auto load = [&] {
    return launch::Module::load(cubin, "fill", 0, kGeometry.shared_bytes, 1);
  };
  auto held = load();
  REQUIRE(held);
  CUgraph graph = nullptr;
  REQUIRE(driver.StreamBeginCapture(stage.stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  const auto come_and_go = [&] {
    held = kda::Status(kda::Code::device_error, "let go");
    held = load();
  };
  SECTION("by the thread that captures") { come_and_go(); }
  SECTION("by another") { std::thread(come_and_go).join(); }
  CHECK(held);
  const Args args = stage.args(1);
  CHECK(launch::enqueue(*held, kGeometry, &args, stage.stream));
  CHECK(driver.StreamEndCapture(stage.stream, &graph) == CUDA_SUCCESS);
  driver.GraphDestroy(graph);
}

TEST_CASE("a cubin of another device, or a damaged one, is refused in words", "[gpu]") {
  const auto device = kda::device::query(0);
  REQUIRE(device);
  const auto damaged = launch::Module::load(
      "\x7f"
      "ELF and nothing more",
      "fill", 0, 0, 1);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.status().code() == kda::Code::device_error);
  const auto other = kda::device::parse(device->major == 9 ? "sm_80" : "sm_90a");
  const auto refused = launch::Module::load(cubin_for(*other), "fill", 0, 0, 1);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.status().message(), contains("CUDA_ERROR_"));
}
