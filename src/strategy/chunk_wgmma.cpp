#include "strategy/chunk_wgmma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "abi/chunk_wgmma.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/pool_states.hpp"

namespace kda::strategy {
namespace {

using abi::chunk_wgmma::Tuning;
using compose::Launch;
using compose::Run;

Status applicable(const Problem& problem, const device::Device& device) {
  if (device.major != 9) {
    return {Code::unsupported,
            fmt::format("strategy chunk_wgmma: {} has compute capability {}.{}; wgmma is 9.0's",
                        device.name, device.major, device.minor)};
  }
  if (problem.qkv_type == DType::f32) {
    return {Code::unsupported,
            "strategy chunk_wgmma: qkv_type is f32; bf16 and f16 are served (chunk serves f32)"};
  }
  if (problem.key_dim <= 32 || problem.key_dim > 128) {
    return {Code::unsupported, fmt::format("strategy chunk_wgmma: key_dim is {}, 33 to 128 are "
                                           "served (chunk serves the others)",
                                           problem.key_dim)};
  }
  return check_pool_states("chunk_wgmma", problem);
}

tunable::Space space() { return tunable::space_of(abi::chunk_wgmma::tunables); }

int columns_of(const Tuning& tuning) { return 64 * tuning.warpgroups; }

int shards_of(const Problem& problem, const Tuning& tuning) {
  return (problem.value_dim + columns_of(tuning) - 1) / columns_of(tuning);
}

// Multiprocessors that the recurrence keeps where the prepare stage runs beside it.
std::int64_t blocks_of(const Problem& problem, const Tuning& tuning) {
  return static_cast<std::int64_t>(problem.max_sequences) * problem.value_heads *
         shards_of(problem, tuning);
}

// A quarter of the device must be left to prepare.
bool fits_beside(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  return prepares_by_group(problem, device, tuning.chunk) &&
         blocks_of(problem, tuning) <= device.multiprocessors * 3 / 4;
}

Status check_beside(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (tuning.stages_at_once == 1 || fits_beside(problem, device, tuning)) return {};
  if (!prepares_by_group(problem, device, tuning.chunk)) {
    return {
        Code::unsupported,
        fmt::format("strategy chunk_wgmma: stages_at_once=2 with chunk={}; it needs sm_90, bf16, "
                    "l2norm, beta up to 1, key_dim 64 or 128, lower_bound >= -100, no w and u, and "
                    "chunk=32; stages_at_once=1 does (the problem is {})",
                    tuning.chunk, problem::to_text(problem))};
  }
  return {Code::unsupported,
          fmt::format(
              "strategy chunk_wgmma: stages_at_once=2 would give {} of {} multiprocessors to the "
              "recurrence, at most {} leave enough to prepare; stages_at_once=1 does",
              blocks_of(problem, tuning), device.multiprocessors, device.multiprocessors * 3 / 4)};
}

double length_of(const Problem& problem) {
  return static_cast<double>(problem.max_tokens) / problem.max_sequences;
}

// The factors, then the chain of chunks of one sequence in waves of blocks or its traffic (measured
// on an H200).
double one_by_one_microseconds(const Problem& problem, const device::Device& device,
                               const Tuning& tuning) {
  const double step = 0.2 + 0.011 * tuning.chunk;
  const auto blocks = static_cast<double>(blocks_of(problem, tuning));
  const double waves = std::max(1.0, blocks / std::max(device.multiprocessors, 1));
  const double chain = waves * step * (length_of(problem) / tuning.chunk + 1);
  return 11.0 + prepare_microseconds(problem, device, tuning.chunk) +
         std::max(chain, stream_microseconds(problem, device, tuning.chunk));
}

// Start and first chunk, then the slower of the chain and of what is left of the device to prepare;
// where they are alike each waits for the other now and then (measured on an H200).
double at_once_microseconds(const Problem& problem, const device::Device& device,
                            const Tuning& tuning) {
  const double step = tuning.warpgroups == 1 ? 0.57 : 0.95;
  const double chain = step * (length_of(problem) / tuning.chunk + 1);
  const double all = std::max(device.multiprocessors, 1);
  const double left = std::max(all - static_cast<double>(blocks_of(problem, tuning)), 1.0);
  const double prepare = 0.93 * prepare_microseconds(problem, device, tuning.chunk) * all / left;
  return 14.0 + 1.05 * std::pow(std::pow(chain, 4) + std::pow(prepare, 4), 0.25);
}

double microseconds(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  return tuning.stages_at_once > 1 ? at_once_microseconds(problem, device, tuning)
                                   : one_by_one_microseconds(problem, device, tuning);
}

// Two warpgroups a block where one would leave more blocks than multiprocessors: they share what is
// loaded.  Theirs are 168 registers a thread, too few for f16's scales and for odd columns.  Both
// stages at once where that is expected to be faster.
tunable::Values defaults(const Problem& problem, const device::Device& device) {
  Tuning tuning;
  tuning.prepare_threads = (problem.key_dim > 64 ? 8 : 4) * tuning.chunk;
  const bool fits = problem.value_dim % 64 == 0 && problem.qkv_type == DType::bf16;
  Tuning at_once = tuning;
  at_once.stages_at_once = 2;
  at_once.load_stages = 6;  // found by kda-tune: the block has its multiprocessor to itself
  if (blocks_of(problem, tuning) > device.multiprocessors && problem.value_dim > 64 && fits) {
    tuning.warpgroups = 2;
  }
  if (fits_beside(problem, device, at_once) &&
      microseconds(problem, device, at_once) < microseconds(problem, device, tuning)) {
    tuning = at_once;
  }
  return tunable::values_of(tuning, abi::chunk_wgmma::tunables);
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::chunk_wgmma::tunables);
  const abi::Shape shape = problem::shape_of(problem);
  const abi::chunk::PrepareTuning prepare{tuning.chunk, tuning.prepare_threads};
  if (Status status = check_prepare("chunk_wgmma", problem, prepare, device); !status) {
    return status;
  }
  if (Status status = check_checkpoints("chunk_wgmma", problem, tuning.chunk); !status) {
    return status;
  }
  if (Status status = check_blocks("chunk_wgmma", problem, shards_of(problem, tuning)); !status) {
    return status;
  }
  if (Status status = check_beside(problem, device, tuning); !status) return status;
  int bytes = abi::chunk_wgmma::chain_shared_bytes(shape, tuning);
  // More than half of what a multiprocessor has: one block each.
  const int alone = static_cast<int>(device.shared_per_multiprocessor / 2);
  if (tuning.stages_at_once > 1) bytes = std::max(bytes, alone);
  if (static_cast<std::size_t>(bytes) > device.shared_per_block) {
    return Status(
        Code::unsupported,
        fmt::format("strategy chunk_wgmma: chunk={} load_stages={} need {} bytes of shared "
                    "memory a block; {} gives {}",
                    tuning.chunk, tuning.load_stages, bytes, device.name, device.shared_per_block));
  }

  compose::Workspace workspace;
  const FactorSlices slices(problem, tuning.chunk, workspace, tuning.stages_at_once > 1);
  compose::Recipe recipe;
  recipe.strategy = "chunk_wgmma";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  recipe.stages.push_back(
      tuning.stages_at_once > 1
          ? prepare_beside_stage(problem, device, slices, shards_of(problem, tuning))
          : hopper_prepare_stage(problem, device, prepare, slices));

  compose::Stage recurrence;
  recurrence.name = "recurrence";
  recurrence.file = "chunk_wgmma/recurrence.cu";
  recurrence.entry = "kda_chunk_wgmma_recurrence";
  recurrence.prelude = compose::prelude(shape, values);
  recurrence.threads = static_cast<unsigned>(abi::chunk_wgmma::chain_threads(shape, tuning));
  recurrence.shared_bytes = static_cast<std::size_t>(bytes);
  recurrence.overlaps_previous = true;
  recurrence.bind = [problem, slices, shards = shards_of(problem, tuning)](const Run& run,
                                                                           Launch& launch) {
    abi::chunk::RecurrenceArgs args;
    args.in = problem::inputs_of(problem, run.forward);
    args.out = problem::outputs_of(problem, run.forward);
    args.factors = slices.at(run);
    launch.grid[0] = static_cast<unsigned>(run.forward.sequences * problem.value_heads * shards);
    launch.set(args);
  };
  recipe.stages.push_back(std::move(recurrence));
  return recipe;
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  return microseconds(problem, device,
                      tunable::tuning_of<Tuning>(values, abi::chunk_wgmma::tunables));
}

}  // namespace

const Strategy chunk_wgmma = {
    "chunk_wgmma",
    "token-parallel prepare, then head-parallel recurrence over chunks (wgmma, sm_90)",
    applicable,
    space,
    defaults,
    compose_recipe,
    estimate,
};

}  // namespace kda::strategy
