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

namespace kda::strategy {
namespace {

using abi::chunk::Tuning;
using compose::Launch;
using compose::Run;

constexpr int kLargestValueDim = 8192;  // what the most shards of two tiles a warp can hold

Status applicable(const Problem& problem, const device::Device&) {
  if (problem.value_dim > kLargestValueDim) {
    return {Code::unsupported, fmt::format("strategy chunk: value_dim is {}, at most {} are served",
                                           problem.value_dim, kLargestValueDim)};
  }
  return {};
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
  // A state of more than 128 channels fills the registers; f32 tiles are twice as large.
  tuning.chunk = problem.key_dim > 128 ? 16 : 32;
  tuning.prepare_threads = 4 * tuning.chunk;
  tuning.load_stages = 3;

  const std::int64_t heads = std::int64_t{problem.value_heads} * problem.max_sequences;
  tuning.threads = 128;
  if (problem.value_dim <= 16) {
    tuning.threads = 32;
  } else if (problem.value_dim <= 32 ||
             heads * shards_for(problem.value_dim, 32) <= device.multiprocessors) {
    tuning.threads = 64;
  }
  tuning.shards = shards_for(problem.value_dim, tuning.threads / 2);
  if (ceil_div(problem.value_dim, tuning.shards) > tuning.threads / 2) tuning.threads = 128;
  return tunable::values_of(tuning, abi::chunk::tunables);
}

struct Slices {
  std::size_t kd, qd, ak, aq, decay;
};

abi::chunk::Factors factors_at(const Slices& slices, std::byte* workspace) {
  abi::chunk::Factors factors;
  factors.kd = workspace + slices.kd;
  factors.qd = workspace + slices.qd;
  factors.ak = workspace + slices.ak;
  factors.aq = workspace + slices.aq;
  factors.decay = reinterpret_cast<float*>(workspace + slices.decay);
  return factors;
}

Status check_tuning(const abi::Shape& shape, const Tuning& tuning, const device::Device& device) {
  const auto refuse = [](std::string why) {
    return Status(Code::unsupported, "strategy chunk: " + std::move(why));
  };
  const int ratio = tuning.prepare_threads / tuning.chunk;
  if (ratio < 2 || ratio > 8) {
    return refuse(fmt::format("prepare_threads={} with chunk={}: must be 2 to 8 times chunk",
                              tuning.prepare_threads, tuning.chunk));
  }
  const int columns = abi::chunk::block_columns(shape, tuning);
  if (columns > tuning.threads) {
    return refuse(fmt::format(
        "shards={} leave {} V columns a block: threads={} hold at most {}; more shards or threads",
        tuning.shards, columns, tuning.threads, tuning.threads));
  }
  const int prepare = abi::chunk::prepare_shared_bytes(shape, tuning);
  const int recurrence = abi::chunk::recurrence_shared_bytes(shape, tuning);
  if (static_cast<std::size_t>(std::max(prepare, recurrence)) > device.shared_per_block) {
    return refuse(fmt::format(
        "chunk={} load_stages={} need {} (prepare) and {} (recurrence) bytes of shared memory a "
        "block; {} gives {}",
        tuning.chunk, tuning.load_stages, prepare, recurrence, device.name,
        device.shared_per_block));
  }
  return {};
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::chunk::tunables);
  const abi::Shape shape = problem::shape_of(problem);
  if (Status status = check_tuning(shape, tuning, device); !status) return status;

  const std::int64_t slots = problem.max_tokens / tuning.chunk + problem.max_sequences;
  const std::int64_t tiles = slots * problem.value_heads;
  const std::int64_t blocks = std::max(tiles, static_cast<std::int64_t>(problem.max_sequences) *
                                                  problem.value_heads * tuning.shards);
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    return Status(
        Code::unsupported,
        fmt::format("strategy chunk: max_tokens={} and max_sequences={} with HV={} make "
                    "{} blocks, more than a grid holds; a larger chunk makes fewer",
                    problem.max_tokens, problem.max_sequences, problem.value_heads, blocks));
  }
  const std::size_t bytes = abi::bytes_of(shape.qkv_type);
  const std::size_t keys = static_cast<std::size_t>(problem.key_dim + 15) / 16 * 16;
  const std::size_t factor = static_cast<std::size_t>(tiles) * tuning.chunk * keys * bytes;
  compose::Workspace workspace;
  Slices slices{};
  slices.kd = workspace.take(factor);
  slices.qd = workspace.take(factor);
  slices.ak = workspace.take(factor);
  slices.aq = workspace.take(static_cast<std::size_t>(tiles) * tuning.chunk * tuning.chunk * bytes);
  slices.decay = workspace.take(static_cast<std::size_t>(tiles) * keys * sizeof(float));

  compose::Recipe recipe;
  recipe.strategy = "chunk";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  const std::string prelude = compose::prelude(shape, values);

  compose::Stage prepare;
  prepare.name = "prepare";
  prepare.file = "chunk/prepare.cu";
  prepare.entry = "kda_chunk_prepare";
  prepare.prelude = prelude;
  prepare.threads = static_cast<unsigned>(tuning.prepare_threads);
  prepare.shared_bytes = static_cast<std::size_t>(abi::chunk::prepare_shared_bytes(shape, tuning));
  prepare.bind = [problem, slices, chunk = tuning.chunk](const Run& run, Launch& launch) {
    abi::chunk::PrepareArgs args;
    args.in = problem::inputs_of(problem, run.forward);
    args.factors = factors_at(slices, run.workspace);
    const std::int64_t used = run.forward.tokens / chunk + run.forward.sequences;
    launch.grid[0] =
        run.forward.tokens == 0 ? 0 : static_cast<unsigned>(used * problem.value_heads);
    launch.set(args);
  };
  recipe.stages.push_back(std::move(prepare));

  compose::Stage recurrence;
  recurrence.name = "recurrence";
  recurrence.file = "chunk/recurrence.cu";
  recurrence.entry = "kda_chunk_recurrence";
  recurrence.prelude = prelude;
  recurrence.threads = static_cast<unsigned>(tuning.threads);
  recurrence.shared_bytes =
      static_cast<std::size_t>(abi::chunk::recurrence_shared_bytes(shape, tuning));
  recurrence.bind = [problem, slices, shards = tuning.shards](const Run& run, Launch& launch) {
    abi::chunk::RecurrenceArgs args;
    args.in = problem::inputs_of(problem, run.forward);
    args.out = problem::outputs_of(problem, run.forward);
    args.factors = factors_at(slices, run.workspace);
    launch.grid[0] = static_cast<unsigned>(run.forward.sequences * problem.value_heads * shards);
    launch.set(args);
  };
  recipe.stages.push_back(std::move(recurrence));
  return recipe;
}

// Traffic of the factors (whole chunks, however short a sequence) and of the states, and the chain
// of chunks of one sequence in waves of blocks.
double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::chunk::tunables);
  const double bytes = abi::bytes_of(problem::shape_of(problem).qkv_type);
  const double length = static_cast<double>(problem.max_tokens) / problem.max_sequences;
  const double heads = static_cast<double>(problem.max_sequences) * problem.value_heads;
  const double padded = std::ceil(length / tuning.chunk) * tuning.chunk;
  const double factors = heads * padded * bytes * (8.0 * problem.key_dim + 4.0 * problem.value_dim);
  const double states = heads * problem.key_dim * problem.value_dim * sizeof(float) *
                        ((problem.initial_state ? 1 : 0) + (problem.final_state ? 1 : 0));
  const double memory = (factors + states) / device.memory_bandwidth * 1e6;
  const double step = 0.4 + 0.03 * tuning.chunk * problem.key_dim / 128.0 * (bytes > 2 ? 4 : 1);
  const double waves =
      std::max(1.0, heads * tuning.shards / (2.0 * std::max(device.multiprocessors, 1)));
  return 6.0 + memory + waves * step * (length / tuning.chunk + 1);
}

}  // namespace

const Strategy chunk = {
    "chunk",    "token-parallel prepare, then head-parallel recurrence over chunks (mma.sync)",
    applicable, space,
    defaults,   compose_recipe,
    estimate,
};

}  // namespace kda::strategy
