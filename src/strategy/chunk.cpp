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

// A block holds as many V columns of a head as it has threads, where no warps share key channels
// (check_tuning).
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

// Whether a block of the recurrence finds room.
bool fits(const abi::Shape& shape, const Tuning& tuning, const device::Device& device) {
  return static_cast<std::size_t>(abi::chunk::recurrence_shared_bytes(shape, tuning)) <=
         device.shared_per_block;
}

// Prepare threads that suit a chunk.
int prepare_threads_for(const Problem& problem, int chunk) {
  const bool f32 = problem.qkv_type == DType::f32;
  const bool wide = problem.key_dim > 64 && (problem.key_dim <= 128 || !f32);
  return wide ? 8 * chunk : 4 * chunk;
}

// By warps that share key channels, as many as keep the device's schedulers busy; the tuning as it
// is where K, V or shared memory do not let them.  GPU us on an H100 by one, two and four of them
// (T = 8192; kda-bench --strategy chunk, the best of threads, shards and load_stages):
//   f32, K = 128         8 heads 1517, 793, 659   32 heads 1822, 1061, 1107   64 2098, 1781, 1890
//   f32, K = V = 64, two sequences                 8 heads 557, 304, 241      32  557, 480
//   bf16, K = V = 256    4 heads 942, 670, 435    16 heads 1328, 843, 907     64 2656, 3327
//   bf16, K = 128        8 heads 387, 357, 335    32 heads 614, 567, 720      64  920, 936
Tuning sharing_keys(const Problem& problem, const device::Device& device, const Tuning& alone) {
  const abi::Shape shape = problem::shape_of(problem);
  const std::int64_t heads = std::int64_t{problem.value_heads} * problem.max_sequences;
  const std::int64_t warps = heads * ceil_div(problem.value_dim, 16);  // of 16 V columns
  const bool f32 = problem.qkv_type == DType::f32;
  // A state of more than 128 channels and f16's scales are too much for one warp (2700 bytes
  // spill).
  const bool scaled = problem.qkv_type == DType::f16 && problem.key_dim > 128;
  int wanted = f32 || scaled || warps <= 2 * device.multiprocessors ? 2 : 1;
  if (warps <= device.multiprocessors) wanted = 4;
  for (int key_warps = wanted; key_warps > 1; key_warps /= 2) {
    Tuning tuning = alone;
    tuning.key_warps = key_warps;
    tuning.threads = 128;
    const int columns = 16 * (4 / key_warps);
    tuning.shards = shards_for(problem.value_dim, columns);
    if (ceil_div(problem.value_dim, tuning.shards) > columns) continue;
    if (!abi::chunk::shares_keys(shape, tuning)) continue;
    for (const int chunk : {alone.chunk, problem.wy_chunk > 0 ? alone.chunk : 16}) {
      tuning.chunk = chunk;
      tuning.prepare_threads = prepare_threads_for(problem, chunk);
      for (const int stages : {3, 2}) {
        tuning.load_stages = stages;
        if (fits(shape, tuning, device)) return tuning;
      }
    }
  }
  return alone;
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  Tuning tuning;
  // f32 takes three products for one; of up to 64 by 64 chunks of 32 pay still.
  const bool small = problem.key_dim <= 64 && problem.value_dim <= 64;
  tuning.chunk = problem.qkv_type == DType::f32 && !small ? 16 : 32;
  if (problem.wy_chunk > 0) tuning.chunk = problem.wy_chunk;
  tuning.prepare_threads = prepare_threads_for(problem, tuning.chunk);

  const std::int64_t heads = std::int64_t{problem.value_heads} * problem.max_sequences;
  tuning.threads = 128;
  if (problem.value_dim <= 16) {
    tuning.threads = 32;
  } else if (problem.value_dim <= 32 ||
             heads * shards_for(problem.value_dim, 32) <= device.multiprocessors) {
    tuning.threads = 64;
  }
  tuning.shards = shards_for(problem.value_dim, tuning.threads / 2);
  // What the most shards leave: up to two tiles a warp, but one beside a state of more than 128
  // channels while that does, as two spill.
  const int columns = ceil_div(problem.value_dim, tuning.shards);
  if (columns > tuning.threads / 2) tuning.threads = 128;
  if (columns > (problem.key_dim > 128 ? 64 : 128)) tuning.threads = 256;
  return tunable::values_of(sharing_keys(problem, device, tuning), abi::chunk::tunables);
}

Status check_tuning(const abi::Shape& shape, const Tuning& tuning, const device::Device& device) {
  const auto refuse = [](std::string why) {
    return Status(Code::unsupported, "strategy chunk: " + std::move(why));
  };
  if (tuning.threads < 32 * tuning.key_warps) {
    return refuse(fmt::format("key_warps={} want at least {} threads, not threads={}",
                              tuning.key_warps, 32 * tuning.key_warps, tuning.threads));
  }
  const int own = abi::chunk::keys_of_warp(shape, tuning);
  if ((tuning.key_warps - 1) * own >= shape.key_dim) {
    return refuse(
        fmt::format("key_warps={} of {} channels each leave the last none of key_dim={}; fewer do",
                    tuning.key_warps, own, shape.key_dim));
  }
  if (!abi::chunk::shares_keys(shape, tuning)) {
    return refuse(fmt::format(
        "key_warps={} of {} channels each reach past the {} that key_dim={} stores of a factor; "
        "fewer may not",
        tuning.key_warps, own, abi::chunk::factor_keys(shape), shape.key_dim));
  }
  const int columns = abi::chunk::block_columns(shape, tuning);
  const int held = tuning.threads / tuning.key_warps;
  if (columns > held) {
    return refuse(
        fmt::format("shards={} leave {} V columns a block: threads={} of key_warps={} hold at most "
                    "{}; more shards or threads",
                    tuning.shards, columns, tuning.threads, tuning.key_warps, held));
  }
  if (!fits(shape, tuning, device)) {
    return refuse(fmt::format(
        "chunk={} load_stages={} key_warps={} need {} bytes of shared memory a block in the "
        "recurrence; {} gives {}",
        tuning.chunk, tuning.load_stages, tuning.key_warps,
        abi::chunk::recurrence_shared_bytes(shape, tuning), device.name, device.shared_per_block));
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
  const double products = 0.032 * tuning.chunk * problem.key_dim / 128.0 * wide / tuning.key_warps;
  const double sums =  // of f32, 16 tokens: 0.05, 0.2 and 0.8 us by two, four and eight warps
      tuning.key_warps > 1 ? 0.00075 * tuning.chunk * tuning.key_warps * tuning.key_warps : 0.0;
  const double step = 0.4 + products + sums;
  const double blocks =
      static_cast<double>(problem.max_sequences) * problem.value_heads * tuning.shards;
  const double waves = std::max(1.0, blocks / (2.0 * std::max(device.multiprocessors, 1)));
  const auto chain = [&](double tokens) { return step * (tokens / tuning.chunk + 1); };
  const double longest = chain(longest_length(problem));
  return 11.0 + factor_microseconds(problem, device, tuning.chunk) +
         (is_mixed(problem) ? longest + waves * kShortMicroseconds
                            : std::max(longest, waves * chain(mean_length(problem))));
}

}  // namespace

const Strategy chunk = {
    "chunk",    "token-parallel prepare, then head-parallel recurrence over chunks (mma.sync)",
    applicable, space,
    defaults,   compose_recipe,
    estimate,
};

}  // namespace kda::strategy
