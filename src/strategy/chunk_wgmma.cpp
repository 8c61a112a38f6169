#include "strategy/chunk_wgmma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "abi/chunk_wgmma.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"
#include "strategy/recurrent.hpp"
#include "strategy/tensor_box.hpp"

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
  return check_kept_states("chunk_wgmma", problem);
}

tunable::Space space() { return tunable::space_of(abi::chunk_wgmma::tunables); }

int shards_of(const Problem& problem, const Tuning& tuning) {
  const int columns = abi::chunk_wgmma::columns(tuning);
  return (problem.value_dim + columns - 1) / columns;
}

// A block a sequence, value head and shard.
std::int64_t blocks_of(const Problem& problem, const Tuning& tuning) {
  return static_cast<std::int64_t>(problem.max_sequences) * problem.value_heads *
         shards_of(problem, tuning);
}

// Blocks of the recurrence, of a run of so many sequences.  Beside a stage of short sequences
// blocks find the long ones, and all must begin at once, for that stage begins when they all have;
// at once with prepare as many sequences as fit half of the device.
ChainBlocks chain_blocks(const Problem& problem, const device::Device& device,
                         const Tuning& tuning) {
  const std::int64_t each = std::int64_t{problem.value_heads} * shards_of(problem, tuning);
  const std::int64_t all = device.multiprocessors;
  std::int64_t most = std::numeric_limits<unsigned>::max();
  if (tuning.short_tokens > 1) {
    most = tuning.stages_at_once > 1 ? std::max<std::int64_t>(all / 2 / each, 1) * each : all;
  }
  return {each, most};
}

// A quarter of the device must be left to prepare.
bool fits_beside(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  return prepares_by_group(problem, device, tuning.chunk) &&
         chain_blocks(problem, device, tuning).of(problem.max_sequences) <=
             device.multiprocessors * 3 / 4;
}

Status check_beside(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (tuning.stages_at_once == 1 || fits_beside(problem, device, tuning)) return {};
  if (!prepares_by_group(problem, device, tuning.chunk)) {
    return {
        Code::unsupported,
        fmt::format(
            "strategy chunk_wgmma: stages_at_once=2 with chunk={}; it needs sm_90, bf16, "
            "l2norm or qk_normalized, beta up to 1 (logits, or beta_at_most_one), key_dim "
            "64 or 128, lower_bound >= -100, no w and u, and chunk=32; stages_at_once=1 does (the "
            "problem is {})",
            tuning.chunk, problem::to_text(problem))};
  }
  return {Code::unsupported,
          fmt::format(
              "strategy chunk_wgmma: stages_at_once=2 would give {} of {} multiprocessors to the "
              "recurrence, at most {} leave enough to prepare; stages_at_once=1 does",
              chain_blocks(problem, device, tuning).of(problem.max_sequences),
              device.multiprocessors, device.multiprocessors * 3 / 4)};
}

Status check_columns(const Problem& problem, const Tuning& tuning) {
  if (tuning.columns == 64) return {};
  if (tuning.warpgroups > 1) {
    return {Code::unsupported, fmt::format("strategy chunk_wgmma: columns={} with warpgroups={}: "
                                           "one warpgroup has as many; columns=64 does",
                                           tuning.columns, tuning.warpgroups)};
  }
  if (abi::chunk_wgmma::copies_checkpoints(problem::shape_of(problem))) return {};
  return {
      Code::unsupported,
      fmt::format("strategy chunk_wgmma: columns={}, but no checkpoints are copied: "
                  "checkpoint_tokens = {}, K = {}, layout {}, and half of each product would be "
                  "empty for nothing; columns=64 does",
                  tuning.columns, problem.checkpoint_tokens, problem.key_dim,
                  problem.state_layout == StateLayout::value_first ? "value_first" : "key_first")};
}

Status check_preparers(const Tuning& tuning) {
  if (tuning.preparers == 100 || tuning.stages_at_once > 1) return {};
  return {Code::unsupported,
          fmt::format("strategy chunk_wgmma: preparers={} with stages_at_once=1: nothing runs "
                      "beside the prepare stage; preparers=100 does",
                      tuning.preparers)};
}

Status check_short(const Problem& problem, const Tuning& tuning) {
  if (tuning.short_tokens == 1 || problem.varlen) return {};
  return {Code::unsupported,
          fmt::format("strategy chunk_wgmma: short_tokens={}, but varlen = false: sequences of a "
                      "dense run are equal; short_tokens=1 does",
                      tuning.short_tokens)};
}

// What checkpoints add to a chain that leaves them in shared memory: H = 16, one every 64 tokens,
// 0.31 us each of 32 KB, 0.21 to 0.25 of 16 KB, 0.18 of 8 KB (measured on an H200).
double checkpoints_microseconds(const Problem& problem, const Tuning& tuning) {
  const abi::Shape shape = problem::shape_of(problem);
  if (!abi::chunk_wgmma::copies_checkpoints(shape)) return 0.0;
  const double each = 0.165 + 4.5e-6 * abi::chunk_wgmma::checkpoint_bytes(shape, tuning);
  return each * checkpoints_of(problem, longest_length(problem));
}

// What a wave of blocks takes for short sequences beside a long one: 256 decodes beside 8192
// tokens, 16 heads, take 390 us by blocks two to a multiprocessor and 509 by two warpgroups each
// (measured on an H200); other blocks of one warpgroup are taken to lie between.
double short_microseconds(const Problem& problem, const Tuning& tuning) {
  if (tuning.warpgroups > 1) return kShortMicroseconds;
  return abi::chunk_wgmma::resident_blocks(problem::shape_of(problem), tuning) > 1 ? 2.2 : 3.3;
}

// The factors, then the chain of chunks of one sequence in waves of blocks or its traffic (measured
// on an H200).
double one_by_one_microseconds(const Problem& problem, const device::Device& device,
                               const Tuning& tuning) {
  const double step = 0.1 + 0.011 * tuning.chunk;
  const auto blocks = static_cast<double>(blocks_of(problem, tuning));
  const double waves = std::max(1.0, blocks / std::max(device.multiprocessors, 1));
  const double one = step * (longest_length(problem) / tuning.chunk + 1) +
                     checkpoints_microseconds(problem, tuning);
  const double chain =
      is_mixed(problem) ? one + waves * short_microseconds(problem, tuning) : waves * one;
  return 11.0 + prepare_microseconds(problem, device, tuning.chunk) +
         std::max(chain, stream_microseconds(problem, device, tuning.chunk));
}

// What both stages at once take, each for itself: the chain, and what is left of the device to
// prepare (measured on an H200).
struct AtOnce {
  double chain, prepare;  // microseconds
};
AtOnce at_once_parts(const Problem& problem, const device::Device& device, const Tuning& tuning,
                     std::int64_t chains) {
  const double step = tuning.warpgroups == 1 ? 0.44 : 0.73;
  const double all = std::max(device.multiprocessors, 1);
  const double left = std::max((all - static_cast<double>(chains)) * tuning.preparers / 100, 1.0);
  return {step * (longest_length(problem) / tuning.chunk + 1) +
              checkpoints_microseconds(problem, tuning),
          0.86 * prepare_microseconds(problem, device, tuning.chunk) * all / left};
}

// Start and first chunk, then the slower of the two; where they are alike each waits for the other
// now and then.  Dense runs of one warpgroup a block start sooner: 32 heads of 256 tokens take 16.3
// us for 18.4 of one stage after the other, 4 of 1024 take 23.7 for 24.4.
double at_once_microseconds(const Problem& problem, const device::Device& device,
                            const Tuning& tuning, std::int64_t chains) {
  const AtOnce parts = at_once_parts(problem, device, tuning, chains);
  const double start = problem.varlen || tuning.warpgroups > 1 ? 14.0 : 11.5;
  return start + 1.05 * std::pow(std::pow(parts.chain, 4) + std::pow(parts.prepare, 4), 0.25);
}

// Whether groups bring their next tiles into the L2: what groups gain the chains lose, as both wait
// for memory.  H = 16, whose chains take 1.6 times as long, 132 us with and 129 without; 12 heads
// of 4 x 2048, whose chains wait for prepare, 91 with and 94 without.
bool prepares_ahead(const Problem& problem, const device::Device& device, Tuning tuning) {
  tuning.preparers = 100;  // as it was measured
  const AtOnce parts = at_once_parts(problem, device, tuning, blocks_of(problem, tuning));
  return is_mixed(problem) || parts.chain < 1.5 * parts.prepare;
}

// Percent of what chains leave that prepares.  Groups that are far ahead of the chains have their
// factors come from memory and not from the L2, which an H100's bandwidth does not hide: 16 heads
// of 8192 tokens 155, 152, 140 and 135 us by 100, 86, 72 and 64, 24 heads 188, 173, 189 and 210, 32
// by two warpgroups 280, 270, 234 and 243 (by one 226, 251, 298 and 329), 40 heads 314, 293, 291
// and 316, 12 heads of 2048 tokens 39.5, 38.7, 38.6 and 39.5.  On an H200 no time was taken.
int preparers_of(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  constexpr double kHides = 4e12;  // bytes a second
  if (device.memory_bandwidth >= kHides || is_mixed(problem) || problem.checkpoint_tokens > 0) {
    return 100;
  }
  const AtOnce parts = at_once_parts(problem, device, tuning, blocks_of(problem, tuning));
  const double share = parts.prepare / parts.chain;
  if (share >= 1.5) return 100;  // chains wait for every group
  if (share >= 1.0 || share < 0.5) return 86;
  return share >= 0.7 ? 72 : 64;
}

// The prefill of a mixed pack, and its decodes' states beside the chains; nine tenths of the
// bandwidth is what decodes alone reach on an H200.  256 decodes beside 8192 tokens take 270 us at
// once and 289 otherwise, beside 8 of 1024 tokens 295 and 290: how many are long is not known.
double apart_microseconds(const Problem& problem, const device::Device& device,
                          const Tuning& tuning) {
  const Problem prefill = longest_alone(problem);
  const double states = static_cast<double>(problem.max_sequences - 1) * problem.value_heads *
                        problem.key_dim * problem.value_dim *
                        abi::bytes_of(problem::shape_of(problem).state_type) *
                        ((problem.initial_state ? 1 : 0) + (problem.final_state ? 1 : 0));
  const double decodes = states / (0.9 * device.memory_bandwidth) * 1e6;
  if (tuning.stages_at_once > 1) {
    // Decodes begin where prepare has ended or left multiprocessors alone: halfway, say.
    const double alone = at_once_microseconds(
        prefill, device, tuning, chain_blocks(problem, device, tuning).of(problem.max_sequences));
    return std::max(alone, 25.0 + 0.5 * alone + decodes);
  }
  const double prepare = prepare_microseconds(prefill, device, tuning.chunk);
  return std::max(one_by_one_microseconds(prefill, device, tuning),
                  15.0 + prepare + stream_microseconds(prefill, device, tuning.chunk) + decodes);
}

double microseconds(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (tuning.short_tokens > 1 && is_mixed(problem)) {
    return apart_microseconds(problem, device, tuning);
  }
  return tuning.stages_at_once > 1
             ? at_once_microseconds(problem, device, tuning, blocks_of(problem, tuning))
             : one_by_one_microseconds(problem, device, tuning);
}

// Up to here token by token is faster (256 such sequences beside one of 8192, H = 16 on an H200: of
// 1 token 289 us for 509 by chunks of two warpgroups, of 8 528 for 549, of 16 875 for 558;
// src/README.md has the command.  By rings of three, since then, those of 1 take 458).
constexpr int kShortTokens = 8;

// Sequences of up to so many chunks are over before a block is busy: two blocks share a
// multiprocessor, which a ring of three leaves room for (32 of 64 tokens, H = 16: 73 us for 80).
constexpr double kBriefChunks = 4;
constexpr int kBriefStages = 3;

// Both stages at once: a block has its multiprocessor to itself, and its copies take long while the
// others prepare.  H = 16 takes 145, 135, 130, 126 us with rings of four to seven.  With
// checkpoints as deep a ring as leaves two of them room (one every 64 tokens: 189 and 178 us with
// rings of four and five; of six with one 237).
Tuning at_once_of(const abi::Shape& shape, Tuning tuning, int warpgroups, int columns = 64) {
  tuning.stages_at_once = 2;
  tuning.warpgroups = warpgroups;
  tuning.columns = columns;
  tuning.load_stages = 7;
  const bool copies = abi::chunk_wgmma::copies_checkpoints(shape);
  while (abi::chunk_wgmma::chain_shared_bytes(shape, tuning) > abi::chunk_wgmma::shared_limit ||
         (copies && tuning.load_stages > 1 &&
          abi::chunk_wgmma::checkpoint_buffers(shape, tuning) < 2)) {
    --tuning.load_stages;
  }
  return tuning;
}

// Two warpgroups a block where one would leave more blocks than multiprocessors: they share what is
// loaded.  Theirs are 168 registers a thread, too few for f16's scales and for odd columns.  Both
// stages at once, or in a mixed pack a stage of short sequences, where that is expected to be
// faster; two warpgroups there leave more multiprocessors to prepare (H = 32: 225 us for 245).  How
// few of a pack's sequences are long is not known: beside a stage of short ones one warpgroup a
// block.  One with checkpoints, too, and one stage after the other a ring of four (H = 64 583 us,
// two warpgroups 621).
tunable::Values defaults(const Problem& problem, const device::Device& device) {
  Tuning tuning;
  tuning.prepare_threads = (problem.key_dim > 64 ? 8 : 4) * tuning.chunk;
  Tuning apart = tuning;
  apart.short_tokens = kShortTokens;
  const bool fits = problem.value_dim % 64 == 0 && problem.qkv_type == DType::bf16;
  const abi::Shape shape = problem::shape_of(problem);
  const bool copies = abi::chunk_wgmma::copies_checkpoints(shape);
  const Tuning base = tuning;
  const auto beside = [&](int warpgroups, int columns = 64) {
    Tuning at_once = at_once_of(shape, base, warpgroups, columns);
    at_once.preparers = preparers_of(problem, device, at_once);
    return at_once;
  };
  Tuning at_once = beside(1);
  if (blocks_of(problem, tuning) > device.multiprocessors && fits) {
    Tuning brief = tuning;
    brief.load_stages = kBriefStages;
    if (!shape.checkpoints && longest_length(problem) <= kBriefChunks * tuning.chunk &&
        abi::chunk_wgmma::resident_blocks(shape, brief) > 1) {
      tuning = brief;
    } else if (problem.value_dim > 64 && !copies) {
      tuning.warpgroups = 2;
    }
  } else if (fits && !copies) {
    tuning.load_stages = 5;  // H = 48 in bf16 324 us for 337 of a ring of four
  }
  const Tuning wide = beside(2);
  if (fits && problem.value_dim > 64 && !copies && fits_beside(problem, device, wide) &&
      (!fits_beside(problem, device, at_once) ||
       microseconds(problem, device, wide) < microseconds(problem, device, at_once))) {
    at_once = wide;
  }
  // Checkpoints leave twice as many multiprocessors (H = 16, one every 64 tokens: 165 us for 178),
  // if that is more than what the model cannot tell.
  const Tuning halves = beside(1, 32);
  if (copies && fits_beside(problem, device, halves) &&
      microseconds(problem, device, halves) < 0.995 * microseconds(problem, device, at_once)) {
    at_once = halves;
  }
  if (fits_beside(problem, device, at_once) &&
      microseconds(problem, device, at_once) < microseconds(problem, device, tuning)) {
    tuning = at_once;
  }
  if (is_mixed(problem)) {
    Tuning apart_at_once = beside(1);
    // Blocks of the short stage find room beside a ring of six, or of four with checkpoints.
    apart_at_once.load_stages = std::min(apart_at_once.load_stages, copies ? 4 : 6);
    apart_at_once.short_tokens = kShortTokens;
    if (fits_beside(problem, device, apart_at_once) &&
        microseconds(problem, device, apart_at_once) < microseconds(problem, device, apart)) {
      apart = apart_at_once;
    }
    // Not for the few per cent of which the model knows nothing.
    if (microseconds(problem, device, apart) < 0.95 * microseconds(problem, device, tuning)) {
      tuning = apart;
    }
  }
  return tunable::values_of(tuning, abi::chunk_wgmma::tunables);
}

// Blocks of the prepare stage up to which the chains may begin, and bring their states, while the
// last chunks are prepared; what came before the run has ended, as each block waits for that before
// it lets them.  Of brief sequences, whose chains come two to a multiprocessor (256 heads of 32
// tokens 23.2 us for 26.1, h16_32x64 56.6 for 58.5), but not of many more, whose states would drive
// factors from the L2 (2048 heads of 16 tokens 145 us for 139).  Longer chains would share the
// multiprocessors that fall free first (h64 480 us for 436).
std::int64_t early_blocks(const Problem& problem, const device::Device& device,
                          const Tuning& tuning) {
  constexpr std::int64_t kEach = 16;  // a multiprocessor
  const bool brief = longest_length(problem) <= kBriefChunks * tuning.chunk &&
                     abi::chunk_wgmma::resident_blocks(problem::shape_of(problem), tuning) > 1;
  return brief && tuning.short_tokens <= 1 ? kEach * device.multiprocessors : 0;
}

// What the kernels know of the tuning: how many prepare is the grid's.
tunable::Values kernel_values(tunable::Values values) {
  std::erase_if(values, [](const auto& value) { return value.first == "preparers"; });
  return values;
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::chunk_wgmma::tunables);
  const abi::Shape shape = problem::shape_of(problem);
  const abi::chunk::PrepareTuning prepare{tuning.chunk, tuning.prepare_threads,
                                          tuning.short_tokens};
  const bool apart = tuning.short_tokens > 1;
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
  if (Status status = check_preparers(tuning); !status) return status;
  if (Status status = check_short(problem, tuning); !status) return status;
  if (Status status = check_columns(problem, tuning); !status) return status;
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
          ? prepare_beside_stage(problem, device, slices,
                                 {.chains = chain_blocks(problem, device, tuning),
                                  .preparers = tuning.preparers,
                                  .short_tokens = tuning.short_tokens,
                                  .ahead = prepares_ahead(problem, device, tuning)})
          : hopper_prepare_stage(problem, device, prepare, slices, false,
                                 early_blocks(problem, device, tuning)));

  compose::Stage recurrence;
  recurrence.name = "recurrence";
  recurrence.file = "chunk_wgmma/recurrence.cu";
  recurrence.entry = "kda_chunk_wgmma_recurrence";
  recurrence.prelude = compose::prelude(shape, kernel_values(values));
  recurrence.threads = static_cast<unsigned>(abi::chunk_wgmma::chain_threads(shape, tuning));
  recurrence.shared_bytes = static_cast<std::size_t>(bytes);
  recurrence.overlaps_previous = true;
  recurrence.bind = [problem, shape, tuning, slices, chains = chain_blocks(problem, device, tuning),
                     copies = abi::chunk_wgmma::copies_checkpoints(shape)](const Run& run,
                                                                           Launch& launch) {
    launch.grid[0] = static_cast<unsigned>(chains.of(run.forward.sequences));
    using abi::chunk_wgmma::Args;
    Args args{.chain = {.in = problem::inputs_of(problem, run.forward),
                        .out = problem::outputs_of(problem, run.forward),
                        .factors = slices.at(run)}};
    const std::optional<TensorBox> states =
        copies ? box_of_states(shape, args.chain.in, args.chain.out) : std::nullopt;
    args.checkpoints.present = states.has_value();
    const std::optional<RowBoxes> rows =
        abi::chunk_wgmma::maps_rows(shape, tuning)
            ? boxes_of_rows(problem, args.chain.in, args.chain.out, tuning.chunk)
            : std::nullopt;
    args.rows.present = rows.has_value();
    launch.set(args);
    if (rows) {
      launch.add_map(offsetof(Args, rows.v), rows->v);
      launch.add_map(offsetof(Args, rows.o), rows->o);
    }
    if (states) launch.add_map(offsetof(Args, checkpoints.map), *states);
  };
  recipe.stages.push_back(std::move(recurrence));
  if (apart) {
    Result<compose::Stage> last = short_stage(problem, device, tuning.short_tokens);
    if (!last) return last.status();
    recipe.stages.push_back(*std::move(last));
  }
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
