#include "strategy/chunk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "abi/chunk.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"

namespace kda::strategy {
namespace {

using abi::chunk::Tuning;
using compose::Launch;
using compose::Run;

// The largest value on offer of a tunable.
constexpr int most(int Tuning::*field) {
  int found = 0;
  for (const auto& row : abi::chunk::tunables) {
    if (row.field != field) continue;
    for (const int value : row.values) found = std::max(found, value);
  }
  return found;
}

// A block holds as many V columns of a head as it has threads (check_tuning).
constexpr int kMostShards = most(&Tuning::shards);
constexpr int kMostColumns = most(&Tuning::threads);
constexpr int kLargestValueDim = kMostShards * kMostColumns;

Status applicable(const Problem& problem, const device::Device&) {
  if (problem.value_dim > kLargestValueDim) {
    return {Code::unsupported,
            fmt::format("strategy chunk: value_dim is {}, at most {} are served, {} shards of {} "
                        "columns; strategy recurrent serves more",
                        problem.value_dim, kLargestValueDim, kMostShards, kMostColumns)};
  }
  return check_kept_states("chunk", problem);
}

tunable::Space space() { return tunable::space_of(abi::chunk::tunables); }

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

// The fewest shards on offer that leave a block at most `columns` V columns.
int shards_for(int value_dim, int columns) {
  const tunable::Space rows = space();  // outlives the loop
  for (const int shards : rows[3].values) {
    if (ceil_div(value_dim, shards) <= columns) return shards;
  }
  return space()[3].values.back();
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  Tuning tuning;
  // A state of more than 128 channels fills the registers, and f32 takes three products for one.
  // Of up to 64 by 64 it pays still, with one block of all V columns a head and one tile more in
  // flight (kda_prefill_f32 at B=2 H=8 T=4096 on an H200: 590 us for 776, with w and u 636 for
  // 705).
  const bool f32 = problem.qkv_type == DType::f32;
  const bool small_f32 = f32 && problem.key_dim <= 64 && problem.value_dim <= 64;
  tuning.chunk = problem.key_dim > 128 || (f32 && !small_f32) ? 16 : 32;
  if (problem.wy_chunk > 0) tuning.chunk = problem.wy_chunk;
  const bool wide = problem.key_dim > 64 && (problem.key_dim <= 128 || !f32);
  tuning.prepare_threads = wide ? 8 * tuning.chunk : 4 * tuning.chunk;
  tuning.load_stages = small_f32 ? 4 : 3;

  const std::int64_t heads = std::int64_t{problem.value_heads} * problem.max_sequences;
  tuning.threads = 128;
  if (problem.value_dim <= 16) {
    tuning.threads = 32;
  } else if (problem.value_dim <= 32 ||
             (!small_f32 && heads * shards_for(problem.value_dim, 32) <= device.multiprocessors)) {
    tuning.threads = 64;
  }
  tuning.shards = shards_for(problem.value_dim, tuning.threads / 2);
  // What the most shards leave: up to two tiles a warp, but one beside a state of more than 128
  // channels while that does, as two spill.
  const int columns = ceil_div(problem.value_dim, tuning.shards);
  if (columns > tuning.threads / 2) tuning.threads = 128;
  if (columns > (problem.key_dim > 128 ? 64 : 128)) tuning.threads = 256;
  return tunable::values_of(tuning, abi::chunk::tunables);
}

Status check_tuning(const abi::Shape& shape, const Tuning& tuning, const device::Device& device) {
  const auto refuse = [](std::string why) {
    return Status(Code::unsupported, "strategy chunk: " + std::move(why));
  };
  const int columns = abi::chunk::block_columns(shape, tuning);
  if (columns > tuning.threads) {
    return refuse(fmt::format(
        "shards={} leave {} V columns a block: threads={} hold at most {}; more shards or threads",
        tuning.shards, columns, tuning.threads, tuning.threads));
  }
  const int bytes = abi::chunk::recurrence_shared_bytes(shape, tuning);
  if (static_cast<std::size_t>(bytes) > device.shared_per_block) {
    return refuse(
        fmt::format("chunk={} load_stages={} need {} bytes of shared memory a block in the "
                    "recurrence; {} gives "
                    "{}",
                    tuning.chunk, tuning.load_stages, bytes, device.name, device.shared_per_block));
  }
  return {};
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::chunk::tunables);
  const abi::Shape shape = problem::shape_of(problem);
  const abi::chunk::PrepareTuning prepare{tuning.chunk, tuning.prepare_threads};
  if (Status status = check_prepare("chunk", problem, prepare, device); !status) return status;
  if (Status status = check_tuning(shape, tuning, device); !status) return status;
  if (Status status = check_checkpoints("chunk", problem, tuning.chunk); !status) return status;
  if (Status status = check_blocks("chunk", problem, tuning.shards); !status) return status;

  compose::Workspace workspace;
  const FactorSlices slices(problem, tuning.chunk, workspace);

  compose::Recipe recipe;
  recipe.strategy = "chunk";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  recipe.stages.push_back(prepare_stage(problem, prepare, slices));

  compose::Stage recurrence;
  recurrence.name = "recurrence";
  recurrence.file = "chunk/recurrence.cu";
  recurrence.entry = "kda_chunk_recurrence";
  recurrence.prelude = compose::prelude(shape, values);
  recurrence.threads = static_cast<unsigned>(tuning.threads);
  recurrence.shared_bytes =
      static_cast<std::size_t>(abi::chunk::recurrence_shared_bytes(shape, tuning));
  recurrence.bind = [problem, slices, shards = tuning.shards](const Run& run, Launch& launch) {
    launch.grid[0] = static_cast<unsigned>(run.forward.sequences * problem.value_heads * shards);
    launch.set(abi::chunk::RecurrenceArgs{.in = problem::inputs_of(problem, run.forward),
                                          .out = problem::outputs_of(problem, run.forward),
                                          .factors = slices.at(run)});
  };
  recipe.stages.push_back(std::move(recurrence));
  return recipe;
}

// The factors, and the chain of chunks of one sequence in waves of blocks.
double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::chunk::tunables);
  const double wide = problem.qkv_type == DType::f32 ? 4 : 1;
  const double step = 0.4 + 0.04 * tuning.chunk * problem.key_dim / 128.0 * wide;
  const double blocks =
      static_cast<double>(problem.max_sequences) * problem.value_heads * tuning.shards;
  const double waves = std::max(1.0, blocks / (2.0 * std::max(device.multiprocessors, 1)));
  const double one = step * (longest_length(problem) / tuning.chunk + 1);
  return 11.0 + factor_microseconds(problem, device, tuning.chunk) +
         (is_mixed(problem) ? one + waves * kShortMicroseconds : waves * one);
}

}  // namespace

const Strategy chunk = {
    "chunk",    "token-parallel prepare, then head-parallel recurrence over chunks (mma.sync)",
    applicable, space,
    defaults,   compose_recipe,
    estimate,
};

}  // namespace kda::strategy
