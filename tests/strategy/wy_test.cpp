// w and u on the device against their formulas in fp64, from every strategy that makes them.
#include <string>
#include <utility>
#include <vector>

#include "reference/chunked.hpp"
#include "reference/dtype.hpp"
#include "reference/error.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

// [N, HV, Nc, C, channels] of the reference's chunks, which come by sequence, place and head.
std::vector<double> gathered(const reference::Chunked& truth, int heads, std::size_t sequences,
                             std::vector<double> reference::Chunk::*part) {
  const std::size_t chunks = truth.chunks.size() / sequences / static_cast<std::size_t>(heads);
  std::vector<double> out;
  for (std::size_t n = 0; n < sequences; ++n)
    for (int head = 0; head < heads; ++head)
      for (std::size_t c = 0; c < chunks; ++c) {
        const reference::Chunk& chunk =
            truth.chunks[(n * chunks + c) * static_cast<std::size_t>(heads) +
                         static_cast<std::size_t>(head)];
        CHECK(chunk.head == head);
        out.insert(out.end(), (chunk.*part).begin(), (chunk.*part).end());
      }
  return out;
}

std::vector<double> numbers(DType type, const DeviceMemory& memory, std::size_t count) {
  const std::vector<std::byte> bytes = memory.download();
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(reference::load(type, bytes.data(), i));
  return out;
}

void check_close(const char* what, DType type, const DeviceMemory& memory,
                 const std::vector<double>& truth, int columns) {
  const reference::Error error =
      reference::error_of(numbers(type, memory, truth.size()), truth, columns);
  INFO(what << ": " << reference::to_text(error));
  CHECK(error.not_finite == 0);
  CHECK(error.rel_l2 <= 2 * reference::tolerance(type));  // an operand and the result are rounded
  CHECK(memory.canary_damage().empty());
}

void check(const Gpu& gpu, const Trial& trial, const std::string& strategy) {
  INFO(strategy << ": " << to_text(trial));
  const Problem& p = trial.problem;
  Options options;
  options.strategy = strategy;
  const Result<Plan> plan = Plan::make(p, options);
  INFO(plan.status().message());
  if (!plan && plan.status().code() == Code::unsupported) return;
  REQUIRE(plan);
  Truth truth(trial);
  const std::size_t sequences = trial.lengths.size();
  const reference::Chunked chunked =
      reference::chunked(reference::reference_inputs(truth.tensors()), p.wy_chunk);
  const auto w_truth = gathered(chunked, p.value_heads, sequences, &reference::Chunk::w);
  const auto u_truth = gathered(chunked, p.value_heads, sequences, &reference::Chunk::u);
  const std::size_t element = reference::bytes_of(p.qkv_type);
  const DeviceMemory w(gpu, w_truth.size() * element, element);
  const DeviceMemory u(gpu, u_truth.size() * element, element);
  Rig rig(gpu, trial, truth.tensors());
  const std::string failed = rig.run(
      [&](Forward forward, void* workspace, std::size_t bytes, Stream stream) {
        forward.w = w.data();
        forward.u = u.data();
        return plan->run(forward, workspace, bytes, stream);
      },
      plan->workspace_bytes());
  CHECK(failed.empty());
  CHECK(truth.judge(rig.outputs()).empty());
  check_close("w", p.qkv_type, w, w_truth, p.key_dim);
  check_close("u", p.qkv_type, u, u_truth, p.value_dim);
}

}  // namespace

TEST_CASE("w and u are right from every strategy of chunks", "[strategy][gpu]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const char* type : kTypes) {
    for (const char* words :
         {"wy=32 H=2 HV=4 K=64 V=96 gate=softplus h0=1 ht=1", "wy=16 H=1 HV=2 K=60 V=33",
          "wy=64 H=2 HV=2 K=128 V=64 gate=logsigmoid beta_logit=0"}) {
      const Trial each = complete(trial(all_types(type) + words, {171, 171}));
      for (const char* strategy : {"chunk", "chunk_wgmma", "segments"}) check(gpu, each, strategy);
    }
  }
}
