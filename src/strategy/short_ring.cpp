#include "strategy/short_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "abi/recurrent.h"
#include "compose/prelude.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/lengths.hpp"
#include "strategy/recurrent_launch.hpp"

namespace kda::strategy {
namespace {

using abi::recurrent::ShortTuning;

// In slices of some 32 KB, two of them of f32 states on their way.
ShortTuning ring_tuning(const abi::Shape& shape, int short_tokens) {
  ShortTuning ring{.lanes = 4, .columns = 4, .short_tokens = short_tokens};
  constexpr int kChannels = 16;  // a lane
  while (ring.lanes < 32 && ring.lanes * kChannels < shape.key_dim) ring.lanes *= 2;
  const auto columns = [&] {
    return abi::recurrent::geometry_of(shape, abi::recurrent::tuning_of(ring)).block_columns;
  };
  while (ring.columns > 1 && 2 * shape.value_dim <= columns()) ring.columns /= 2;
  constexpr int kShared = 64 * 1024;
  constexpr int kMost = 4;
  ring.states = std::clamp(kShared / abi::recurrent::slice_bytes(shape, ring), 2, kMost);
  return ring;
}

// Enough that a block's start does not count, but some blocks for each of 132 multiprocessors.
std::int64_t taken_in_turn(std::int64_t slices) {
  constexpr std::int64_t kBlocks = 1024;
  constexpr std::int64_t kMost = 16;
  return std::clamp<std::int64_t>(slices / kBlocks, 1, kMost);
}

}  // namespace

Status check_ring(const Problem& problem, const device::Device& device) {
  const abi::Shape shape = problem::shape_of(problem);
  const int row = shape.key_dim * abi::bytes_of(shape.state_type);
  const char* want = device.major != 9          ? "sm_90"
                     : !shape.state_value_first ? "states in [V, K]"
                     : row % 16 != 0            ? "rows of a state on 16 bytes"
                                                : nullptr;
  if (want == nullptr) return {};
  return {Code::unsupported,
          fmt::format("short_by=2 is for {}; short_by=1 does (the problem is {})", want,
                      problem::to_text(problem))};
}

// f32 states: of bf16 ones, whose decodes take half as long, 32 heads and 256 beside 8192 tokens
// take 313 us for 316 (an H200).  31 decodes gain at most 3%, 16 may lose as much.
bool prefers_ring(const Problem& problem, const device::Device& device) {
  return static_cast<bool>(check_ring(problem, device)) && has_many(problem) &&
         problem.state_type == DType::f32;
}

Result<compose::Stage> ring_stage(const Problem& problem, const abi::Shape& shape,
                                  const device::Device& device, int short_tokens) {
  if (Status status = check_ring(problem, device); !status) return status;
  const ShortTuning ring = ring_tuning(shape, short_tokens);
  const auto geometry = abi::recurrent::geometry_of(shape, abi::recurrent::tuning_of(ring));
  if (Status status = check_grid(problem, geometry); !status) return status;
  compose::Stage stage;
  stage.name = "short";
  stage.file = "recurrent/short.cu";
  stage.entry = "kda_recurrent_short";
  stage.threads = abi::recurrent::short_threads;
  // More than half of what a multiprocessor has: one block each.  Two bring no more, but ask for so
  // much at once that others wait for memory (tools/results/log/short_sequences.md).
  stage.shared_bytes = std::max<std::size_t>(abi::recurrent::short_shared_bytes(shape, ring),
                                             device.shared_per_multiprocessor / 2);
  stage.overlaps_previous = true;
  stage.prelude = compose::prelude(shape, {{"lanes", ring.lanes},
                                           {"columns", ring.columns},
                                           {"states", ring.states},
                                           {"short_tokens", ring.short_tokens}});
  stage.bind = bind_sequences(problem, geometry, taken_in_turn);
  return stage;
}

}  // namespace kda::strategy
