#include "strategy/chunk_wgmma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "abi/chunk_wgmma.h"
#include "abi/factors.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/chunk_wgmma_cost.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"
#include "strategy/prepared_by.hpp"
#include "strategy/recurrent.hpp"
#include "strategy/short_ring.hpp"
#include "strategy/tensor_box.hpp"

namespace kda::strategy {
namespace {

using abi::chunk_wgmma::most_keys_in_room;
using abi::chunk_wgmma::Tuning;
using namespace chunk_wgmma_cost;
using compose::Launch;
using compose::Run;

// A state of more channels leaves no registers for two warpgroups or chunks past 32 tokens.
constexpr int most_keys_of_long_chunks = 128;

// What registers hold beside a state of no more than most_keys_in_room channels; or null.
const char* wants_room(const Problem& problem) {
  if (problem.qkv_type == DType::f16) return "f16";
  if (problem.checkpoint_tokens > 0 && problem.state_type != DType::f32) {
    return "checkpoints of 16 bits";
  }
  return problem.wy_chunk > 0 ? "w and u" : nullptr;
}

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
  if (problem.key_dim <= 32) {
    return {Code::unsupported, fmt::format("strategy chunk_wgmma: key_dim is {}, 33 to 256 are "
                                           "served (chunk serves the others)",
                                           problem.key_dim)};
  }
  if (const char* const want = wants_room(problem);
      want != nullptr && problem.key_dim > most_keys_in_room) {
    return {Code::unsupported,
            fmt::format("strategy chunk_wgmma: key_dim is {} with {}, for which registers have no "
                        "room; up to {} are served (chunk serves more)",
                        problem.key_dim, want, most_keys_in_room)};
  }
  if (problem.wy_chunk > 32 && problem.key_dim > most_keys_of_long_chunks) {
    return {Code::unsupported,
            fmt::format("strategy chunk_wgmma: key_dim is {} with wy_chunk = {}, and w and u of "
                        "chunks past 32 tokens leave room for {}; up to {} are served with "
                        "wy_chunk = 32 (chunk serves more)",
                        problem.key_dim, problem.wy_chunk, most_keys_of_long_chunks,
                        most_keys_in_room)};
  }
  return check_kept_states("chunk_wgmma", problem);
}

tunable::Space space() { return tunable::space_of(abi::chunk_wgmma::tunables); }

// Groups that prepare beside chains walk over a pack's sequences a lane each, or in a mixed pack
// over one after another.
bool can_walk(const Problem& problem, const Tuning& tuning) {
  return !problem.varlen || tuning.short_tokens > 1 ||
         problem.max_sequences <= abi::factors::most_walked;
}

// A quarter of the device must be left to prepare.
bool fits_beside(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  return prepares_by_group(problem, device, tuning.chunk) && can_walk(problem, tuning) &&
         chain_blocks(problem, device, tuning).of(problem.max_sequences) <=
             device.multiprocessors * 3 / 4;
}

Status check_beside(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (tuning.stages_at_once == 1 || fits_beside(problem, device, tuning)) return {};
  if (const std::string why = why_not_by_group(problem, device, tuning.chunk); !why.empty()) {
    return {Code::unsupported,
            fmt::format("strategy chunk_wgmma: stages_at_once=2 where {}; stages_at_once=1 does "
                        "(the problem is {})",
                        why, problem::to_text(problem))};
  }
  if (!can_walk(problem, tuning)) {
    return {
        Code::unsupported,
        fmt::format("strategy chunk_wgmma: stages_at_once=2 with max_sequences={} and varlen; "
                    "up to {} are served, any number with short_tokens=8; stages_at_once=1 does",
                    problem.max_sequences, abi::factors::most_walked)};
  }
  return {Code::unsupported,
          fmt::format(
              "strategy chunk_wgmma: stages_at_once=2 would give {} of {} multiprocessors to the "
              "recurrence, at most {} leave enough to prepare; stages_at_once=1 does",
              chain_blocks(problem, device, tuning).of(problem.max_sequences),
              device.multiprocessors, device.multiprocessors * 3 / 4)};
}

Status check_registers(const Problem& problem, const Tuning& tuning) {
  if (problem.key_dim <= most_keys_of_long_chunks ||
      (tuning.warpgroups == 1 && tuning.chunk <= 32)) {
    return {};
  }
  return {
      Code::unsupported,
      fmt::format("strategy chunk_wgmma: warpgroups={} chunk={} where key_dim is {}: a state of "
                  "more than 128 channels leaves them no registers; warpgroups=1 chunk=32 does",
                  tuning.warpgroups, tuning.chunk, problem.key_dim)};
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

// Sequences of up to so many chunks are over before a block is busy: two blocks share a
// multiprocessor, which a ring of three leaves room for (32 of 64 tokens, H = 16: 73 us for 80).
constexpr double kBriefChunks = 4;
constexpr int kBriefStages = 3;

// As deep a ring as a block has room for.
void shorten_ring(const abi::Shape& shape, Tuning& tuning) {
  while (abi::chunk_wgmma::chain_shared_bytes(shape, tuning) > abi::chunk_wgmma::shared_limit &&
         tuning.load_stages > 1) {
    --tuning.load_stages;
  }
}

// Both stages at once: a block has its multiprocessor to itself, and its copies take long while the
// others prepare.  H = 16 takes 145, 135, 130, 126 us with rings of four to seven.  With
// checkpoints as deep a ring as leaves two of them room (one every 64 tokens: 189 and 178 us with
// rings of four and five; of six with one 237).
Tuning at_once_of(const abi::Shape& shape, Tuning tuning, int warpgroups, int columns = 64) {
  tuning.stages_at_once = 2;
  tuning.warpgroups = warpgroups;
  tuning.columns = columns;
  tuning.load_stages = 7;
  shorten_ring(shape, tuning);
  const bool copies = abi::chunk_wgmma::copies_checkpoints(shape);
  // Beside two of two warpgroups' there would be room for a ring of two.
  const int buffers = warpgroups > 1 ? 1 : 2;
  while (copies && tuning.load_stages > 1 &&
         abi::chunk_wgmma::checkpoint_buffers(shape, tuning) < buffers) {
    --tuning.load_stages;
  }
  return tuning;
}

// One stage after the other, as all begin.
Tuning one_by_one_of(const Problem& problem) {
  Tuning tuning;
  // 16 heads of K = 192 in f16 671 us by four times chunk threads, 733 by eight times as many.
  const bool many = problem.key_dim > 64 && problem.key_dim <= 128;
  tuning.prepare_threads = (many ? 8 : 4) * tuning.chunk;
  shorten_ring(problem::shape_of(problem), tuning);
  return tuning;
}

// And beside a stage of short sequences, whose blocks find room beside a ring of six, or of four
// with checkpoints.
Tuning apart_at_once_of(const Problem& problem, const device::Device& device) {
  const abi::Shape shape = problem::shape_of(problem);
  Tuning tuning = at_once_of(shape, one_by_one_of(problem), 1);
  tuning.preparers = preparers_of(problem, device, tuning);
  tuning.load_stages =
      std::min(tuning.load_stages, abi::chunk_wgmma::copies_checkpoints(shape) ? 4 : 6);
  tuning.short_tokens = kShortTokens;
  // By rings where decodes take more than two thirds as long as the prefill: 256 of them beside
  // 8192 tokens of 16 heads 246 us for 260, of 8 heads 148 for 146 (an H200).
  const bool much =
      decodes_microseconds(problem, device) > 0.67 * long_microseconds(problem, device, tuning);
  tuning.short_by = much && prefers_ring(problem, device) ? 2 : 1;
  return tuning;
}

// Two warpgroups send 64 KB a checkpoint, for which they wait where these are dense: 8192 tokens of
// 8 heads as a pack take 206, 215 and 330 us with one every 1024, 256 and 64 tokens (an H200).
bool sends_by_two(const Problem& problem, const device::Device& device) {
  constexpr int kFew = 256;  // tokens from one to the next
  return problem.checkpoint_tokens >= kFew && memory_hides(device);
}

// Two warpgroups a block where one would leave more blocks than multiprocessors: they share what is
// loaded.  Theirs are 168 registers a thread, too few for odd columns, and f16's chains take half
// as long again by them (H = 64, one stage after the other, 621 us for 538, an H200).  Both stages
// at once, or in a mixed pack a stage of short sequences, where that is expected to be faster; two
// warpgroups there leave more multiprocessors to prepare (H = 32: 225 us for 245).  How few of a
// pack's sequences are long is not known: beside a stage of short ones one warpgroup a block.  One
// with checkpoints, too, and one stage after the other a ring of four (H = 64 583 us, two
// warpgroups 621).
tunable::Values defaults(const Problem& problem, const device::Device& device) {
  Tuning tuning = one_by_one_of(problem);
  const abi::Shape shape = problem::shape_of(problem);
  Tuning apart = tuning;
  apart.short_tokens = kShortTokens;
  const bool whole = problem.value_dim % 64 == 0;
  const bool fits = whole && problem.qkv_type == DType::bf16;
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
    if (!shape.checkpoints && usual_length(problem) <= kBriefChunks * tuning.chunk &&
        abi::chunk_wgmma::resident_blocks(shape, brief) > 1) {
      tuning = brief;
    } else if (problem.value_dim > 64 && problem.key_dim <= 128 && !copies) {
      tuning.warpgroups = 2;
    }
  } else if (fits && !copies) {
    tuning.load_stages = 5;  // H = 48 in bf16 324 us for 337 of a ring of four
    shorten_ring(shape, tuning);
  }
  const Tuning wide = beside(2);
  if (whole && problem.value_dim > 64 && problem.key_dim <= 128 &&
      (!copies || sends_by_two(problem, device)) && fits_beside(problem, device, wide) &&
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
    const Tuning apart_at_once = apart_at_once_of(problem, device);
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
  const bool brief = usual_length(problem) <= kBriefChunks * tuning.chunk &&
                     abi::chunk_wgmma::resident_blocks(problem::shape_of(problem), tuning) > 1;
  return brief && tuning.short_tokens <= 1 ? kEach * device.multiprocessors : 0;
}

// What the kernels know of the tuning: how many prepare is the grid's.
tunable::Values kernel_values(tunable::Values values) {
  std::erase_if(values, [](const auto& value) {
    return value.first == "preparers" || value.first == "short_by";
  });
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
  if (Status status = check_short_by("chunk_wgmma", tuning.short_tokens, tuning.short_by);
      !status) {
    return status;
  }
  if (Status status = check_registers(problem, tuning); !status) return status;
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
    set_with_rows(launch, args, rows);
    if (states) launch.add_map(offsetof(Args, checkpoints.map), *states);
  };
  recipe.stages.push_back(std::move(recurrence));
  if (apart) {
    Result<compose::Stage> last =
        short_stage(problem, device, tuning.short_tokens, tuning.short_by == 2);
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

std::optional<tunable::Values> short_and_long_at_once(const Problem& problem,
                                                      const device::Device& device) {
  const Tuning tuning = apart_at_once_of(problem, device);
  if (!fits_beside(problem, device, tuning)) return std::nullopt;
  return tunable::values_of(tuning, abi::chunk_wgmma::tunables);
}

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
