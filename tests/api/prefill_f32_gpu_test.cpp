// kda_prefill_f32 on the device against the fp64 reference: o, w and u.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kda/kda.h"
#include "kda/prefill.h"
#include "problem/problem.hpp"
#include "reference/chunked.hpp"
#include "reference/error.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/gpu.hpp"

using namespace kda;
using namespace kda::test;
using reference::GatePattern;
using reference::InputSpec;

namespace {

constexpr double kBound = 2e-5;

struct Sizes {
  int B, H, T, K, V, C;
};

std::string to_text(const Sizes& s) {
  return "B=" + std::to_string(s.B) + " H=" + std::to_string(s.H) + " T=" + std::to_string(s.T) +
         " K=" + std::to_string(s.K) + " V=" + std::to_string(s.V) + " C=" + std::to_string(s.C);
}

// [B, H, T, *] is B H sequences of one head each.
reference::Tensors inputs_of(const Sizes& s, const InputSpec& spec) {
  Problem problem{.heads = 1, .key_dim = s.K, .value_dim = s.V};
  problem.max_sequences = s.B * s.H;
  problem.max_tokens = std::int64_t{s.B} * s.H * s.T;
  problem.qkv_type = problem.gate_type = problem.beta_type = DType::f32;
  problem.gate = Gate::logsigmoid;
  problem.beta_is_logit = false;
  return reference::make_tensors(*problem::complete(problem), problem.max_tokens, s.B * s.H, spec);
}

struct OnDevice {
  DeviceMemory q, k, v, g, beta, w, u, o;
  KdaPrefillIO io = {};

  OnDevice(const Gpu& gpu, const Sizes& s, const reference::Tensors& host) {
    const auto upload = [&](const reference::Bytes& bytes) {
      DeviceMemory memory(gpu, bytes.size(), 4);  // no more than an element's alignment
      memory.upload(bytes.data());
      return memory;
    };
    const std::size_t chunks = static_cast<std::size_t>(s.B) * s.H * ((s.T + s.C - 1) / s.C);
    q = upload(host.q), k = upload(host.k), v = upload(host.v), g = upload(host.g);
    beta = upload(host.beta);
    w = DeviceMemory(gpu, chunks * s.C * s.K * sizeof(float), 4);
    u = DeviceMemory(gpu, chunks * s.C * s.V * sizeof(float), 4);
    o = DeviceMemory(gpu, host.v.size(), 4);
    const auto in = [](const DeviceMemory& m) { return static_cast<const float*>(m.data()); };
    const auto out = [](const DeviceMemory& m) { return static_cast<float*>(m.data()); };
    io = {in(q), in(k), in(v), in(g), in(beta), out(w), out(u), out(o),
          s.B,   s.H,   s.T,   s.K,   s.V,      s.C,    0};
    gpu.synchronize();  // memory is filled on another stream
  }

  std::string damage() const {
    return q.canary_damage() + v.canary_damage() + w.canary_damage() + u.canary_damage() +
           o.canary_damage();
  }
};

std::vector<double> floats(const DeviceMemory& memory) {
  const std::vector<std::byte> bytes = memory.download();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

void check_close(const char* what, const std::vector<double>& x, const std::vector<double>& truth,
                 int columns) {
  const reference::Error error = reference::error_of(x, truth, columns);
  INFO(what << ": " << reference::to_text(error));
  CHECK(error.not_finite == 0);
  // Under the strongest gates all of w is below what f32 can hold.
  const double size = std::sqrt(std::inner_product(truth.begin(), truth.end(), truth.begin(), 0.0));
  const double least = 1e-30 * std::sqrt(static_cast<double>(truth.size()));
  CHECK(error.rel_l2 * (size > 0 ? size : 1) <= kBound * std::max(size, least));
}

void check(const Gpu& gpu, const Sizes& s, const InputSpec& spec = {}) {
  INFO(to_text(s) << " " << reference::to_text(spec));
  const reference::Tensors host = inputs_of(s, spec);
  const OnDevice device(gpu, s, host);
  const int code = kda_prefill_f32(&device.io, gpu.stream());
  INFO(kda_last_message());
  REQUIRE(code == 0);
  gpu.synchronize();
  const reference::Chunked truth = reference::chunked(reference::reference_inputs(host), s.C);
  std::vector<double> w, u;
  for (const reference::Chunk& chunk : truth.chunks) {
    w.insert(w.end(), chunk.w.begin(), chunk.w.end());
    u.insert(u.end(), chunk.u.begin(), chunk.u.end());
  }
  check_close("o", floats(device.o), truth.outputs.o, s.V);
  check_close("w", floats(device.w), w, s.K);
  check_close("u", floats(device.u), u, s.V);
  CHECK(device.damage().empty());
}

// The kernels of every size of the original, on all cores, before they are met one by one.
void compile_all() {
  std::vector<Problem> problems;
  for (const int K : {64, 128})
    for (const int V : {64, 128})
      for (const int C : {32, 64}) {
        Problem& problem = problems.emplace_back(inputs_of({1, 1, 64, K, V, C}, {}).problem);
        problem.wy_chunk = C;
      }
  for (const Result<Plan>& plan : Plan::make_all(problems)) CHECK(plan.status());
}

// Null where there is no device, which is said.
std::unique_ptr<Gpu> gpu_or_skip() {
  if (!on_device()) return nullptr;
  return std::make_unique<Gpu>();
}

// One call, captured in the strictest mode and replayed.
void replay(const Gpu& gpu, const KdaPrefillIO& io, int times) {
  const launch::Driver& driver = gpu.driver();
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  must(driver.StreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
  const int code = kda_prefill_f32(&io, gpu.stream());
  must(driver.StreamEndCapture(gpu.stream(), &graph), "end");
  INFO(kda_last_message());
  REQUIRE(code == 0);
  must(driver.GraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
  for (int i = 0; i < times; ++i) {
    must(driver.GraphLaunch(executable, gpu.stream()), "cuGraphLaunch");
  }
  gpu.synchronize();
  must(driver.GraphExecDestroy(executable), "cuGraphExecDestroy");
  must(driver.GraphDestroy(graph), "cuGraphDestroy");
}

}  // namespace

TEST_CASE("kda_prefill_f32 is right for every size of the original and its tails", "[gpu]") {
  const auto gpu = gpu_or_skip();
  if (!gpu) return;
  compile_all();
  for (const int K : {64, 128})
    for (const int V : {64, 128})
      for (const int C : {32, 64})
        for (const int T : {1, C - 1, C, C + 1, 200}) check(*gpu, {2, 3, T, K, V, C});
  for (const Sizes& s : {Sizes{1, 2, 100, 60, 100, 32}, Sizes{1, 1, 70, 256, 64, 16},
                         Sizes{3, 1, 33, 1, 1, 16}, Sizes{1, 5, 4096, 64, 64, 32}})
    check(*gpu, s);
}

TEST_CASE("no gate breaks kda_prefill_f32", "[gpu]") {
  // The first implementation divided products of decays, which underflow to 0 / 0.
  const auto gpu = gpu_or_skip();
  if (!gpu) return;
  const Sizes s{1, 2, 150, 64, 64, 32};
  InputSpec spec;
  for (const double g : {-500.0, -88.0, -20.0, 0.0, 20.0, 500.0}) {
    spec.gate = GatePattern::constant;
    spec.gate_value = g;
    check(*gpu, s, spec);
    spec.gate = GatePattern::by_token;
    spec.gate_other = 500;
    check(*gpu, s, spec);
    spec.gate = GatePattern::one_channel;
    spec.gate_other = -500;
    check(*gpu, s, spec);
  }
}

TEST_CASE("kda_prefill_f32 of a new size, captured", "[gpu]") {
  const auto gpu = gpu_or_skip();
  if (!gpu) return;
  const Sizes s{1, 3, 77, 40, 56, 16};
  const reference::Tensors host = inputs_of(s, {});
  OnDevice device(*gpu, s, host);
  gpu->synchronize();
  replay(*gpu, device.io, 1);
  const auto truth = reference::recurrence(reference::reference_inputs(host));
  check_close("o of the graph", floats(device.o), truth.o, s.V);
}

TEST_CASE("kda_prefill_f32 without w and u, and captured", "[gpu]") {
  const auto gpu = gpu_or_skip();
  if (!gpu) return;
  const Sizes s{2, 2, 300, 64, 64, 32};
  const reference::Tensors host = inputs_of(s, {});
  OnDevice device(*gpu, s, host);
  const auto truth = reference::recurrence(reference::reference_inputs(host));

  KdaPrefillIO io = device.io;
  io.w = nullptr;
  REQUIRE(kda_prefill_f32(&io, gpu->stream()) == 0);
  io.u = nullptr;
  REQUIRE(kda_prefill_f32(&io, gpu->stream()) == 0);
  gpu->synchronize();
  check_close("o", floats(device.o), truth.o, s.V);

  device.o.poison();
  gpu->synchronize();
  replay(*gpu, io, 3);
  check_close("o of the graph", floats(device.o), truth.o, s.V);
}

TEST_CASE("kda_prefill_f32 past 2^31 elements", "[gpu]") {
  // The first implementation indexed with ints.  Only the first and the last head hold numbers: the
  // others are NaN, so that an offset that wraps shows, as NaN or as an output never written.
  const auto gpu = gpu_or_skip();
  if (!gpu) return;
  const Sizes all{2, 257, 65536, 64, 64, 32};
  const Sizes one{1, 1, all.T, all.K, all.V, all.C};
  const std::size_t heads = static_cast<std::size_t>(all.B) * all.H;
  const std::size_t row = static_cast<std::size_t>(all.T) * all.K * sizeof(float);
  std::size_t free = 0, total = 0;
  must(gpu->driver().MemGetInfo(&free, &total), "cuMemGetInfo");
  if (free < heads * row * 14) {  // seven tensors, four factors and as much to spare
    WARN("skipped: " << free << " bytes of device memory are free");
    return;
  }
  const reference::Tensors host = inputs_of(one, {});
  const DeviceMemory q(*gpu, heads * row), k(*gpu, heads * row), v(*gpu, heads * row),
      g(*gpu, heads * row), beta(*gpu, heads * all.T * sizeof(float)), w(*gpu, heads * row),
      u(*gpu, heads * row), o(*gpu, heads * row);
  const auto place = [](const DeviceMemory& memory, std::size_t offset) {
    return reinterpret_cast<CUdeviceptr>(memory.data()) + offset;
  };
  const auto upload = [&](const DeviceMemory& memory, const reference::Bytes& bytes) {
    for (const std::size_t head : {std::size_t{0}, heads - 1})
      must(gpu->driver().MemcpyHtoD(place(memory, head * bytes.size()), bytes.data(), bytes.size()),
           "cuMemcpyHtoD");
  };
  upload(q, host.q), upload(k, host.k), upload(v, host.v), upload(g, host.g);
  upload(beta, host.beta);
  const auto f = [](const DeviceMemory& memory) { return static_cast<float*>(memory.data()); };
  const KdaPrefillIO io = {f(q),  f(k),  f(v),  f(g),  f(beta), f(w),  f(u), f(o),
                           all.B, all.H, all.T, all.K, all.V,   all.C, 0};
  gpu->synchronize();
  const int code = kda_prefill_f32(&io, gpu->stream());
  INFO(kda_last_message());
  REQUIRE(code == 0);
  gpu->synchronize();

  const reference::Chunked truth = reference::chunked(reference::reference_inputs(host), all.C);
  std::vector<double> w_truth, u_truth;
  for (const reference::Chunk& chunk : truth.chunks) {
    w_truth.insert(w_truth.end(), chunk.w.begin(), chunk.w.end());
    u_truth.insert(u_truth.end(), chunk.u.begin(), chunk.u.end());
  }
  for (const std::size_t head : {std::size_t{0}, heads - 1}) {
    INFO("head " << head);
    const auto read = [&](const DeviceMemory& memory) {
      std::vector<float> values(row / sizeof(float));
      must(gpu->driver().MemcpyDtoH(values.data(), place(memory, head * row), row), "cuMemcpyDtoH");
      return std::vector<double>(values.begin(), values.end());
    };
    check_close("o", read(o), truth.outputs.o, all.V);
    check_close("w", read(w), w_truth, all.K);
    check_close("u", read(u), u_truth, all.V);
  }
}
