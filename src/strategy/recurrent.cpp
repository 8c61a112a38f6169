#include "strategy/recurrent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "abi/recurrent.h"
#include "compose/prelude.hpp"
#include "problem/shape.hpp"
#include "strategy/lengths.hpp"
#include "strategy/recurrent_launch.hpp"
#include "strategy/short_ring.hpp"

namespace kda::strategy {

namespace {

using abi::recurrent::Geometry;
using abi::recurrent::Tuning;

// The kernel's tuning repeats the tunables and adds short_tokens, ahead and spare.
static_assert(sizeof(abi::recurrent::StepTuning) == sizeof(Tuning) + 3 * sizeof(int));

// Elements of the state that a thread can keep beside its keys and sums without spilling.
constexpr int kMaxElements = 128;

// A sequence of so few is decoded: nothing is gained by fetching tokens ahead.  Nor of a few more
// where a multiprocessor has eight heads or more, as others' blocks hide what one waits for: 2048
// heads of 9, 10, 11 and 12 tokens take 108, 114, 121 and 127 us, by two stages 161, 168, 174 and
// 179, by fused 134 of 11 to 13 (H200, tools/results/log/recurrent.md).  128 heads of 12 took 15
// and 13.
constexpr double kFewTokens = 8;
constexpr double kFewTokensOfMany = 12;

bool has_many_heads(const Problem& problem, const device::Device& device) {
  return static_cast<double>(problem.max_sequences) * problem.value_heads >=
         8.0 * device.multiprocessors;
}

// The cost model.  A warp waits this long for one token's shared memory, sums and shuffles (H200:
// 16 tokens of 64 heads take 15.9 us, 8 of 16 heads 9.9), and for other warps' sums besides (the
// former with states in [K, V] 19.5 on an H100) ...
constexpr double kTokenCycles = 1400;
constexpr double kSumCycles = 300;
// ... and issues this many instructions for it, beside four an element of the state (H200: 2048
// heads of 12, 16 and 32 tokens take 180, 224 and 403 us).
constexpr double kTokenInstructions = 220;
// With one stage it also waits this long for the next tokens to come.
constexpr double kFetchCycles = 1500;
constexpr double kCyclesPerMicrosecond = 1700;
constexpr double kLaunchMicroseconds = 3;

tunable::Space space() { return tunable::space_of(abi::recurrent::tunables); }

int elements_of(const Geometry& geometry, const Tuning& tuning) {
  return geometry.lane_channels * tuning.columns;
}

// For one token a sequence of states in [V, K], by how many heads there are to a multiprocessor
// (measured on an H200 with 32 heads; the times after "for" are of the tuning below).
// f32: eight channels a lane and small blocks, 1 sequence 3.5 us for 4.4, 64 68 for 72, 256 273 for
// 287.  Between, those in slots of a pool by more columns, 8 sequences 9.5 us for 9.7, 32 36.2 for
// 37.4; in tensors of their own, or with other K, they are better off below.  bf16: 8 sequences 5.9
// us for 6.6; 64 37.0 for 38.3, 256 142 for 147; one as below.
std::optional<Tuning> decode_tuning(const Problem& problem, const device::Device& device) {
  const abi::Shape shape = problem::shape_of(problem);
  if (problem.max_tokens > problem.max_sequences || !shape.state_value_first) return std::nullopt;
  const double heads = static_cast<double>(problem.max_sequences) * problem.value_heads;
  const bool few = heads <= device.multiprocessors;
  const bool many = has_many_heads(problem, device);
  Tuning tuning{.lanes = 4, .stages = 1};
  int channels = 8;  // a lane
  if (shape.state_type == abi::DType::f32) {
    // sm_89 spills, as do packs under some gates.
    const bool in_slots = device.major >= 9 && problem.state_pool && !problem.varlen &&
                          !problem.draft_states && !problem.committed_tokens;
    if (!few && !many && !(in_slots && shape.key_dim > 64 && shape.key_dim <= 128)) {
      return std::nullopt;
    }
    tuning.threads = many ? 64 : 128;
    tuning.columns = few ? 1 : (many ? 2 : 8);
  } else {
    if (few) return std::nullopt;
    tuning.threads = many ? 32 : 128;
    tuning.columns = many ? 8 : 2;
    if (!many) channels = 32;
  }
  while (tuning.lanes < 32 && tuning.lanes * channels < shape.key_dim) tuning.lanes *= 2;
  // Half of a block would be empty.
  const int columns = abi::recurrent::geometry_of(shape, tuning).block_columns;
  if (2 * shape.value_dim <= columns) return std::nullopt;
  return tuning;
}

// Of states in [K, V], whose lanes keep 16 bytes of V each: so many channels a lane, in blocks of
// so many threads or of as many as a column's lanes need.
Tuning key_first_tuning(const abi::Shape& shape, int stages, int channels, int threads) {
  Tuning tuning{.threads = threads,
                .lanes = 4,
                .columns = 16 / abi::bytes_of(shape.state_type),
                .stages = stages};
  while (tuning.lanes < 32 && tuning.lanes * channels < shape.key_dim) tuning.lanes *= 2;
  const auto least = [&] { return 32 * abi::recurrent::geometry_of(shape, tuning).key_warps; };
  tuning.threads = std::max(tuning.threads, least());
  // Smaller blocks where V is narrower than one.
  while (tuning.threads > least() &&
         2 * shape.value_dim <= abi::recurrent::geometry_of(shape, tuning).block_columns) {
    tuning.threads /= 2;
  }
  return tuning;
}

// One token a sequence, 32 heads (H100): f32 states of 1, 8, 64 and 256 sequences take 4.6, 13.0,
// 98 and 386 us, where a warp with all lanes of a column, which reads lines by halves, took 5.3,
// 14.0, 104 and 410; bf16 ones 4.3, 8.8, 52 and 198 for 4.5, 9.5, 60 and 228.
Tuning key_first_decode(const Problem& problem, const device::Device& device) {
  const abi::Shape shape = problem::shape_of(problem);
  const double heads = static_cast<double>(problem.max_sequences) * problem.value_heads;
  const bool few = heads <= device.multiprocessors;
  const bool many = has_many_heads(problem, device);
  if (shape.state_type == abi::DType::f32) {
    return few || many ? key_first_tuning(shape, 1, 8, few ? 128 : 256)
                       : key_first_tuning(shape, 1, 32, 32);
  }
  return few ? key_first_tuning(shape, 1, 8, 256) : key_first_tuning(shape, 1, 16, many ? 128 : 64);
}

Tuning default_tuning(const Problem& problem, const device::Device& device) {
  const abi::Shape shape = problem::shape_of(problem);
  if (const std::optional<Tuning> tuning = decode_tuning(problem, device)) return *tuning;
  const bool many = shape.state_value_first && has_many_heads(problem, device);
  const bool decodes = mean_length(problem) <= (many ? kFewTokensOfMany : kFewTokens);
  const int stages = decodes ? 1 : 2;
  if (!shape.state_value_first) {
    // Stores on the way, or a second stage of tokens, take registers.
    const bool keeps = shape.draft_states || shape.checkpoints || shape.committed_tokens;
    return decodes && !keeps ? key_first_decode(problem, device)
                             : key_first_tuning(shape, stages, 8, 128);
  }
  Tuning tuning{.lanes = 4, .columns = decodes ? 4 : 2, .stages = stages};
  // Channels a lane.  In f32 16 spill on sm_89 where K is no multiple of 32.
  const int channels = problem.qkv_type == DType::f32 && shape.key_dim % 32 != 0 ? 8 : 16;
  while (tuning.lanes < 32 && tuning.lanes * channels < shape.key_dim) tuning.lanes *= 2;
  // Smaller blocks where V is narrower than one, or too few would leave multiprocessors idle.
  tuning.threads = 128;
  const auto too_large = [&] {
    const Geometry geometry = abi::recurrent::geometry_of(shape, tuning);
    return 2 * shape.value_dim <= geometry.block_columns ||
           2 * blocks_of(problem, geometry) <= device.multiprocessors;
  };
  if (decodes && too_large()) tuning.columns = 2;
  if (too_large()) tuning.threads = 64;
  return tuning;
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  return tunable::values_of(default_tuning(problem, device), abi::recurrent::tunables);
}

Status check_tuning(const abi::Shape& shape, const Tuning& tuning, const Geometry& geometry) {
  if (tuning.columns % geometry.column_run != 0) {
    return Status(Code::unsupported,
                  fmt::format("columns = {}; with a {} state in [K, V] a lane keeps 16 bytes of "
                              "V, so columns must be a multiple of {}",
                              tuning.columns, abi::dtypes[static_cast<int>(shape.state_type)].name,
                              geometry.column_run));
  }
  if (tuning.threads / 32 % geometry.key_warps != 0) {
    return Status(
        Code::unsupported,
        fmt::format("lanes = {} with threads = {}; with a state in [K, V] a warp holds {} "
                    "of a column's lanes, so threads must be a multiple of {}, or fewer "
                    "lanes",
                    tuning.lanes, tuning.threads, geometry.warp_lanes, 32 * geometry.key_warps));
  }
  if (const int elements = elements_of(geometry, tuning); elements > kMaxElements) {
    return Status(Code::unsupported,
                  fmt::format("lanes = {} and columns = {} make a thread keep {} elements of a "
                              "state with K = {}; {} fit its registers: more lanes or fewer "
                              "columns",
                              tuning.lanes, tuning.columns, elements, shape.key_dim, kMaxElements));
  }
  return {};
}

Status applicable(const Problem& problem, const device::Device& device) {
  if (problem.wy_chunk > 0) {
    return {Code::unsupported,
            "strategy recurrent: wy_chunk is set; w and u come from strategies of chunks"};
  }
  const abi::Shape shape = problem::shape_of(problem);
  Status status =
      check_grid(problem, abi::recurrent::geometry_of(shape, default_tuning(problem, device)));
  if (status) return status;
  for (const tunable::Values& values : tunable::enumerate(space())) {  // wider blocks may do
    const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::recurrent::tunables);
    const Geometry geometry = abi::recurrent::geometry_of(shape, tuning);
    if (check_tuning(shape, tuning, geometry) && check_grid(problem, geometry)) return {};
  }
  return status;
}

// Sequences that a block of a short stage looks at, of a run of so many blocks if it were one: as
// many as leave few enough that they take little where no sequence is short (8,192 some 6 us on an
// H200), but no more, as a block serves all that are, one after another.
std::int64_t looked_at(std::int64_t blocks) {
  constexpr std::int64_t kBlocks = 8192;
  constexpr std::int64_t kMost = 8;
  return std::clamp<std::int64_t>(blocks / kBlocks, 1, kMost);
}

// Without what it is specialised on.
compose::Stage step_stage(const Problem& problem, const device::Device& device,
                          const Tuning& tuning, const Geometry& geometry, SequencesABlock each) {
  compose::Stage step;
  step.file = "recurrent/step.cu";
  step.entry = "kda_recurrent_step";
  step.threads = static_cast<unsigned>(tuning.threads);
  step.overlaps_previous = device.major >= 9;  // its launch, that is: the kernel waits at its start
  step.bind = bind_sequences(problem, geometry, each);
  return step;
}

// What the kernel is specialised on; and where it spills, for which geometry_of has too few
// registers, by three quarters of the blocks a multiprocessor, and so on.  One in twenty of
// problems drawn at random spills, and more registers for all that are alike made the others up to
// 16% slower (H200, tools/results/log/recurrent.md).
void specialise(compose::Stage& step, const abi::Shape& shape, const Geometry& geometry,
                const tunable::Values& values) {
  step.prelude = compose::prelude(shape, values);
  step.roomier = [shape, values, resident = geometry.resident](int spilt) {
    int blocks = resident;
    for (int i = 0; i < spilt && blocks > 0; ++i) blocks = blocks * 3 / 4;
    if (blocks == 0) return std::string();
    tunable::Values fewer = values;
    fewer.emplace_back("spare", resident - blocks);
    return compose::prelude(shape, fewer);
  };
}

std::int64_t one_a_block(std::int64_t) { return 1; }

Result<compose::Recipe> compose(const Problem& problem, const device::Device& device,
                                const tunable::Values& values) {
  const abi::Shape shape = problem::shape_of(problem);
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::recurrent::tunables);
  const Geometry geometry = abi::recurrent::geometry_of(shape, tuning);
  if (Status status = check_tuning(shape, tuning, geometry); !status) return status;
  if (Status status = check_grid(problem, geometry); !status) return status;

  compose::Recipe recipe;
  recipe.strategy = "recurrent";
  recipe.tuning = values;
  recipe.stages.push_back(step_stage(problem, device, tuning, geometry, one_a_block));
  recipe.stages.back().name = "step";
  tunable::Values specialised = values;
  const bool more_than_one = problem.max_tokens > problem.max_sequences;  // token a sequence
  if (tuning.stages == 1 && more_than_one) specialised.emplace_back("ahead", 1);
  specialise(recipe.stages.back(), shape, geometry, specialised);
  return recipe;
}

// Bytes that a run moves at least: the state once in and once out, every token once.
double bytes_of(const Problem& problem, const abi::Shape& shape) {
  const double heads = problem.value_heads;
  const double written = problem.draft_states ? mean_length(problem)
                         : problem.checkpoint_tokens > 0
                             ? 1 + mean_length(problem) / problem.checkpoint_tokens
                             : 1;
  const double states = (shape.initial_state ? 1 : 0) + (shape.final_state ? written : 0);
  const double state = states * problem.max_sequences * heads * shape.key_dim * shape.value_dim *
                       abi::bytes_of(shape.state_type);
  const double token =
      2.0 * (problem.heads * shape.key_dim + heads * shape.value_dim) *
          abi::bytes_of(shape.qkv_type) +
      heads * (shape.key_dim * abi::bytes_of(shape.gate_type) + abi::bytes_of(shape.beta_type));
  return state + static_cast<double>(problem.max_tokens) * token;
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const abi::Shape shape = problem::shape_of(problem);
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::recurrent::tunables);
  const Geometry geometry = abi::recurrent::geometry_of(shape, tuning);

  const int elements = elements_of(geometry, tuning);
  const auto blocks = blocks_of(problem, geometry);
  const auto per_multiprocessor =
      (blocks + device.multiprocessors - 1) / std::max(device.multiprocessors, 1);
  const auto waves = (per_multiprocessor + geometry.resident - 1) / geometry.resident;

  // A multiprocessor issues four warps' instructions a cycle.
  const double issue = static_cast<double>(per_multiprocessor) * tuning.threads / 32 *
                       (4.0 * elements + kTokenInstructions) / 4;
  const double token_cycles = kTokenCycles + (geometry.key_warps > 1 ? kSumCycles : 0.0);
  const double cycles = std::max(token_cycles * static_cast<double>(waves), issue);
  const double tokens = mean_length(problem);
  const double fetches = tuning.stages == 1 ? std::ceil(tokens / geometry.tokens) - 1 : 0;
  const double all =
      tokens * cycles + std::max(fetches, 0.0) * kFetchCycles * static_cast<double>(waves);
  // As decodes reach it: 256 of 32 heads in a pool take 272 us on an H200, 375 on an H100.
  const double bandwidth = 0.84 * std::max(device.memory_bandwidth, 1e9);  // bytes a second
  const double memory = bytes_of(problem, shape) / bandwidth * 1e6;
  const auto chain = [&](double length) { return length * token_cycles / kCyclesPerMicrosecond; };
  if (is_mixed(problem)) {
    // Engines pack decodes before prefills, whose blocks then come last: 200 of one token beside
    // 500 of 32 heads take 614 us on an H200.
    return kLaunchMicroseconds + memory + chain(longest_length(problem) - 1);
  }
  // A pack ends with its longest sequence, which is a block's alone.
  const double arithmetic = std::max(all / kCyclesPerMicrosecond, chain(longest_length(problem)));
  return kLaunchMicroseconds + std::max(arithmetic, memory);
}

// The short stage's problem: as for many decodes, whatever N and H are, so that the same kernel
// serves a smaller one.
Problem shorts_of(const Problem& problem, const device::Device& device) {
  Problem shorts = problem;
  shorts.max_tokens = shorts.max_sequences = 8 * device.multiprocessors;
  shorts.checkpoint_tokens = 0;  // the first comes after more tokens
  return shorts;
}

}  // namespace

Status check_short_by(const char* strategy, int short_tokens, int short_by) {
  if (short_by == 1 || short_tokens > 1) return {};
  return {Code::unsupported,
          fmt::format("strategy {}: short_by={} with short_tokens=1: there is no stage of short "
                      "sequences; short_by=1 does",
                      strategy, short_by)};
}

Result<compose::Stage> short_stage(const Problem& problem, const device::Device& device,
                                   int short_tokens, bool by_ring) {
  // A block counts them, and those past the last that its lanes look for, by 32 bits.
  constexpr int kMostSequences = 1 << 28;
  if (problem.max_sequences > kMostSequences) {
    return Status(Code::unsupported,
                  fmt::format("max_sequences = {} with short_tokens={}; a stage of short sequences "
                              "serves at most {}: fewer sequences a run, or short_tokens=1",
                              problem.max_sequences, short_tokens, kMostSequences));
  }
  const Problem shorts = shorts_of(problem, device);
  const abi::Shape shape = problem::shape_of(shorts);
  if (by_ring) return ring_stage(problem, shape, device, short_tokens);
  Tuning tuning = default_tuning(shorts, device);
  // Blocks that find room beside those of the stages before.  Of f32 states in [K, V] 32 channels
  // a lane, by which 256 decodes beside 8192 tokens, 16 heads, took 334 us on an H100 (in [V, K]
  // 317), spill since a block serves several sequences.
  if (!shape.state_value_first) tuning = key_first_tuning(shape, 1, 16, 64);
  const Geometry geometry = abi::recurrent::geometry_of(shape, tuning);
  if (Status status = check_grid(problem, geometry); !status) return status;
  compose::Stage stage = step_stage(problem, device, tuning, geometry, looked_at);
  tunable::Values values = tunable::values_of(tuning, abi::recurrent::tunables);
  values.emplace_back("short_tokens", short_tokens);
  specialise(stage, shape, geometry, values);
  stage.name = "short";
  return stage;
}

// Nine tenths of the bandwidth are what decodes alone reach on an H200.
double decodes_microseconds(const Problem& problem, const device::Device& device) {
  const double states = static_cast<double>(problem.max_sequences - 1) * problem.value_heads *
                        problem.key_dim * problem.value_dim *
                        abi::bytes_of(problem::shape_of(problem).state_type) *
                        ((problem.initial_state ? 1 : 0) + (problem.final_state ? 1 : 0));
  return states / (0.9 * std::max(device.memory_bandwidth, 1e9)) * 1e6;
}

// 64 sequences of 8 tokens, 32 heads, 175 us on an H200, 128 of two 155, 256 of four and 16 heads
// 204.
double shorts_microseconds(const Problem& problem, const device::Device& device) {
  constexpr double kToken = 0.8;  // a further one of a head's state, by rings
  const double heads = static_cast<double>(problem.max_sequences) * problem.value_heads *
                       problem.key_dim * problem.value_dim / (128 * 128);
  return decodes_microseconds(problem, device) + kToken * std::max(mean_length(problem) - 1, 0.0) *
                                                     heads / std::max(device.multiprocessors, 1);
}

const Strategy recurrent = {
    .name = "recurrent",
    .summary = "token by token, the state in registers: decode, very short sequences, any size",
    .applicable = applicable,
    .space = space,
    .defaults = defaults,
    .compose = compose,
    .estimate = estimate,
};

}  // namespace kda::strategy
