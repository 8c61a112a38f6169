#include "strategy/fused.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "abi/by_gates.h"
#include "abi/fused.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"
#include "strategy/prepared_by.hpp"
#include "strategy/recurrent.hpp"
#include "strategy/short_ring.hpp"
#include "strategy/tensor_box.hpp"

namespace kda::strategy {
namespace {

using abi::fused::Tuning;
using compose::Launch;
using compose::Run;

Status applicable(const Problem& problem, const device::Device& device) {
  if (Status status = check_kept_states("fused", problem); !status) return status;
  std::string why = why_not_plainly(problem, device, abi::factors::chunk);
  if (why.empty() && !abi::fused::serves(problem::shape_of(problem))) {
    why = problem.key_dim > 128
              ? fmt::format("key_dim is {}; 64 and 128 are served", problem.key_dim)
              : fmt::format("value_dim is {}; multiples of {} are served", problem.value_dim,
                            abi::fused::blocks * abi::fused::columns);
  }
  if (!why.empty()) {
    const bool by_wgmma = device.major == 9 && problem.qkv_type != DType::f32;
    const char* const serves_more = by_wgmma ? "chunk_wgmma" : "chunk";
    return {Code::unsupported, fmt::format("strategy fused: {}; {} serves more (the problem is {})",
                                           why, serves_more, problem::to_text(problem))};
  }
  return check_checkpoints("fused", problem, abi::factors::chunk);
}

tunable::Space space() { return tunable::space_of(abi::fused::tunables); }

// Teams where they serve (tools/results/log/fused.md), however often checkpoints come: 64 heads of
// 8192 tokens with one every 64, 128, 256, 512 and 1024 took them 400, 364, 346, 331 and 330 us on
// an H200, two groups of four warps 414, 386, 374, 362 and 360, three 485, 414, 359, 332 and 326;
// with K = 64 and one every 64, 128 and 256 teams 260, 236 and 225, two groups 280, 264 and 257.
// But two groups for many checkpoints of bf16 states, one every 64, 128, 256 and 512 on an H100
// 399, 372, 376 and 363 us for 430, 379, 366 and 348, and with K = 64 for all, one every 256 259 us
// for 278. Where teams do not serve three groups; or two, which leave a checkpoint room in shared
// memory, from where it goes while the walk goes on, where they come often: one every 64 and 128
// tokens, g in f32, 483 and 445 us for 524 and 450 (by teams 455 with one every 64, log decays). Of
// g in f32 and bf16 checkpoints no time by teams was taken.
int default_groups(const Problem& problem) {
  constexpr int kOften = 128;  // tokens
  const int every = problem.checkpoint_tokens;
  const bool wide = problem.state_type == DType::f32;
  const bool leaves_teams_room =
      wide || every == 0 ||
      (every > kOften && problem.key_dim > 64 && problem.gate_type != DType::f32);
  if (makes_by_teams(problem) && leaves_teams_room) return 4;
  if (makes_slabs(problem)) return 2;
  return every > 0 && every <= kOften ? 2 : 3;
}

// What pairs take one after another: sequences, value heads and 128 V columns.
std::int64_t parts_of(const Problem& problem, std::int64_t sequences) {
  return sequences * problem.value_heads *
         (problem.value_dim / (abi::fused::blocks * abi::fused::columns));
}

std::int64_t pairs_of(const device::Device& device) {
  return std::max(device.multiprocessors / abi::fused::blocks, 1);
}

// The states of parts that are cut between pairs (abi/fused.h).
class CutSlices {
 public:
  CutSlices(const Problem& problem, const device::Device& device, compose::Workspace& workspace) {
    const auto blocks =
        static_cast<std::size_t>(pairs_of(device)) * static_cast<std::size_t>(abi::fused::blocks);
    states_ = workspace.take(
        blocks * static_cast<std::size_t>(abi::fused::state_bytes(problem::shape_of(problem))));
    ready_ = workspace.take(blocks * 4 * sizeof(unsigned long long));
  }

  abi::fused::Cuts at(std::byte* workspace) const {
    return {.states = reinterpret_cast<char*>(workspace + states_),
            .ready = reinterpret_cast<unsigned long long*>(workspace + ready_)};
  }

 private:
  std::size_t states_, ready_;
};

// A run's tensors as the copy engine takes them (abi/fused.h).
class Maps {
 public:
  // keeps: whether checkpoints leave through shared memory; teams: whether teams make factors.
  Maps(const Problem& problem, const abi::Inputs& in, const abi::Outputs& out, bool keeps,
       bool teams) {
    constexpr int kTokens = abi::factors::chunk;
    static_assert(abi::fused::columns == 64);
    rows_ = boxes_of_rows(problem, in, out, kTokens);
    if (keeps) states_ = box_of_states(problem::shape_of(problem), in, out);
    if (!teams && !makes_slabs(problem)) return;
    const abi::Shape shape = problem::shape_of(problem);
    const Slabs slabs = teams ? Slabs{.channels = 64, .count = 1}
                              : Slabs{.channels = abi::factors::slab(shape),
                                      .count = abi::factors::slabs_a_box(shape)};
    const int raw_tokens = teams ? kTokens / 2 : kTokens;
    const Extent keys = extent_of(problem, in, problem.heads, problem.key_dim);
    q_ = box_of(in.q, keys, slabs, raw_tokens);
    k_ = box_of(in.k, keys, slabs, raw_tokens);
    loads_g_ = problem.gate_type != DType::f32;
    if (loads_g_) {
      g_ = box_of(in.g, extent_of(problem, in, problem.value_heads, problem.key_dim), slabs,
                  raw_tokens);
    }
  }

  void tell(abi::fused::Args& args) const {
    args.maps = rows_.has_value();
    args.raw.present = has_raw();
    args.checkpoints.present = states_.has_value();
  }

  void add_to(Launch& launch) const {
    using abi::fused::Args;
    if (rows_) {
      launch.add_map(offsetof(Args, v), rows_->v);
      launch.add_map(offsetof(Args, o), rows_->o);
    }
    if (has_raw()) {
      launch.add_map(offsetof(Args, raw.q), *q_);
      launch.add_map(offsetof(Args, raw.k), *k_);
      if (g_) launch.add_map(offsetof(Args, raw.g), *g_);
    }
    if (states_) launch.add_map(offsetof(Args, checkpoints.map), *states_);
  }

 private:
  bool has_raw() const { return q_ && k_ && (g_ || !loads_g_); }

  bool loads_g_ = true;  // else teams read it themselves
  std::optional<RowBoxes> rows_;
  std::optional<TensorBox> q_, k_, g_, states_;
};

// segments: of each part, a pair each (strategy by_gates); keep: if they begin from nothing, tells
// where what they leave for that lies.
Result<compose::Recipe> compose_parts(const Problem& problem, const device::Device& device,
                                      const tunable::Values& values, int segments,
                                      const KeepSegments& keep) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::fused::tunables);
  const abi::Shape shape = problem::shape_of(problem);
  const std::int64_t parts = parts_of(problem, problem.max_sequences);
  // Kernels count them, and those of all pairs behind them, by 32 bits.
  constexpr std::int64_t kMostParts = std::int64_t{1} << 30;
  if (parts > kMostParts) {
    return Status(Code::unsupported,
                  fmt::format("strategy fused: max_sequences={} with HV={} and V={} make {} parts, "
                              "at most {} are served; fewer sequences a run do",
                              problem.max_sequences, problem.value_heads, problem.value_dim, parts,
                              kMostParts));
  }
  // And tokens, a chunk past the last.
  constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 2 * abi::factors::chunk;
  if (problem.max_tokens > kMostTokens) {
    return Status(
        Code::unsupported,
        fmt::format("strategy fused: max_tokens={}, at most {} are served; fewer tokens a "
                    "run or another strategy do",
                    problem.max_tokens, kMostTokens));
  }
  if (abi::fused::by_teams(tuning.groups) && !makes_by_teams(problem)) {
    return Status(
        Code::unsupported,
        fmt::format("strategy fused: groups={} are teams: {}; groups=3 serves the rest (the "
                    "problem is {})",
                    tuning.groups, why_not_by_teams(problem), problem::to_text(problem)));
  }
  if (tuning.short_tokens > 1 && !problem.varlen) {
    return Status(Code::unsupported,
                  fmt::format("strategy fused: short_tokens={}, but varlen = false: sequences of a "
                              "dense run are equal; short_tokens=1 does",
                              tuning.short_tokens));
  }
  if (Status status = check_short_by("fused", tuning.short_tokens, tuning.short_by); !status) {
    return status;
  }
  compose::Workspace workspace;
  const CutSlices cuts(problem, device, workspace);
  compose::Recipe recipe;
  recipe.strategy = "fused";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  compose::Stage stage;
  stage.name = "forward";
  stage.file = "fused/forward.cu";
  stage.entry = "kda_fused_forward";
  tunable::Values factors = {{"groups", tuning.groups}};
  const bool slabs = abi::fused::by_teams(tuning.groups) || makes_slabs(problem);
  if (slabs) factors.emplace_back("slabs", 1);
  if (tuning.short_tokens > 1) factors.emplace_back("short_tokens", tuning.short_tokens);
  factors.emplace_back("beside", 1);
  if (segments > 1) factors.emplace_back("segments", segments);
  if (keep) factors.emplace_back("carried", 1);
  stage.prelude = compose::prelude(shape, factors);
  stage.threads = static_cast<unsigned>(abi::fused::threads(tuning.groups));
  const abi::fused::Layout layout = abi::fused::layout(shape, tuning.groups);
  stage.shared_bytes = static_cast<std::size_t>(layout.bytes);
  stage.cluster = abi::fused::blocks;
  stage.overlaps_previous = true;
  stage.bind = [problem, cuts, keeps = layout.kept != 0,
                teams = abi::fused::by_teams(tuning.groups), pairs = pairs_of(device), segments,
                keep](const Run& run, Launch& launch) {
    const std::int64_t wanted =
        std::min(parts_of(problem, run.forward.sequences) * segments, pairs);
    launch.grid[0] = static_cast<unsigned>(wanted) * abi::fused::blocks;
    abi::fused::Args args{.in = problem::inputs_of(problem, run.forward),
                          .out = problem::outputs_of(problem, run.forward),
                          .cuts = cuts.at(run.workspace)};
    const Maps maps(problem, args.in, args.out, keeps, teams);
    maps.tell(args);
    if (keep) keep(run, args.kept);
    launch.set(args);
    maps.add_to(launch);
  };
  recipe.stages.push_back(std::move(stage));
  if (tuning.short_tokens > 1) {
    Result<compose::Stage> last =
        short_stage(problem, device, tuning.short_tokens, tuning.short_by == 2);
    if (!last) return last.status();
    recipe.stages.push_back(*std::move(last));
  }
  return recipe;
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  return compose_parts(problem, device, values, 1, {});
}

// What checkpoints add to a part of so many tokens: where they leave by the copy engine 0.56 us
// each, of boxes of 8 KB a warp, and 0.32 of bf16 states', 4 KB; from registers 1.3, by teams 0.9
// and a little in each chunk (measured on an H200, 64 heads of 8192 tokens, one every 64; 1.0
// to 1.4 where they are rarer; by teams 16 heads with one every 1024 and 64 tokens 281 and 388 us
// for 262).
double checkpoints_microseconds(const Problem& problem, const Tuning& tuning, double tokens) {
  if (problem.checkpoint_tokens == 0) return 0.0;
  const abi::Shape shape = problem::shape_of(problem);
  const double stored = checkpoints_of(problem, tokens);
  if (abi::fused::layout(shape, tuning.groups).kept != 0) {
    return stored * (0.08 + 5.9e-5 * abi::state_box::bytes(shape));
  }
  if (!abi::fused::by_teams(tuning.groups)) return stored * 1.3;
  return stored * 0.9 + 0.045 * std::ceil(tokens / abi::factors::chunk);
}

// Microseconds of a pair: a chunk of K = 128, and what a part takes beside its chunks, its state in
// and out.  busy: the share of the pairs that have a part; the clock falls as they are more.
// Measured on an H200: by teams 64 heads of 8192 tokens take 269 to 300 us, 64 of 8 x 1024 301 to
// 328, 16 of 32 x 64 tokens 51 (4 and 32 heads took 91 and 92% of what 64 did); by three groups 64
// heads took 314 and 350, not by slabs some 372 and 417.
struct Costs {
  double step, part;
};

// What teams take of a chunk beside what they take of a bounded gate of 16 bits: 64 heads of 8192
// tokens 301 to 304 us of log decays, 311 to 331 by logsigmoid, 314 to 336 by softplus, of log
// decays of 32 bits 318 to 337 (tools/results/h200/open_gates.md).
double by_gate(const Problem& problem) {
  const double words = problem.gate_type == DType::f32 ? 1.1 : 1.0;
  switch (problem.gate) {
    case Gate::bounded:
      return words;
    case Gate::log_decay:
      return 1.05 * words;
    case Gate::logsigmoid:
      return 1.1 * words;
    case Gate::softplus:
      return 1.14 * words;
  }
  return words;
}

Costs costs_of(const Problem& problem, const Tuning& tuning, double busy) {
  if (abi::fused::by_teams(tuning.groups)) {
    return {.step = (0.96 + 0.1 * busy * busy) * by_gate(problem), .part = 2.8};
  }
  const double slower = tuning.groups == 3 ? 0.0 : 0.14;
  return {.step = (makes_slabs(problem) ? 1.18 : 1.45) + slower, .part = 4.0};
}

// The share of their rate that decodes reach beside a prefill whose parts are so many of the pairs'
// (an H200: 256 of 8, 16 and 32 heads beside 8192 tokens 299, 317 and 456 us, of 64 896, where that
// prefill takes some 280 and these decodes 75, 141, 281 and 560 by themselves; by rings of 16 some
// 312, of 32 384, of 64 845).
double decodes_beside(double busy, int short_by) {
  return short_by == 2 ? std::min(0.71, 1.4 * (1.0 - busy)) : std::min(0.42, 0.8 * (1.0 - busy));
}

// A pair's parts.  Where they leave some pair with far more than others they are cut, and a chunk
// takes longer (96 heads, by teams 403 to 431 us; not by slabs 555, uncut 733;
// sm90/fused/stream.cuh).
double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::fused::tunables);
  const double parts = static_cast<double>(parts_of(problem, problem.max_sequences)) /
                       static_cast<double>(pairs_of(device));
  const Costs costs = costs_of(problem, tuning, std::min(parts, 1.0));
  const double step = costs.step * problem.key_dim / 128;
  const double longer = abi::fused::by_teams(tuning.groups) ? 1.04 : 1.1;
  const auto walked = [&](double tokens, double times) {
    return std::ceil(tokens / abi::factors::chunk) * step * times +
           checkpoints_microseconds(problem, tuning, tokens);
  };
  if (is_mixed(problem)) {  // the others are as good as nothing but states
    const double long_parts = parts / problem.max_sequences;
    const double prefill = std::ceil(long_parts) * walked(usual_length(problem), 1.0);
    // 6 and 16 decodes and 4096 tokens of 8 heads 154 and 161 us, 16 of 32 heads 187.
    if (tuning.short_tokens <= 1) return 20.0 + prefill + parts * (costs.part + step);
    const double beside = decodes_beside(std::min(long_parts, 1.0), tuning.short_by) * prefill;
    return 22.0 + prefill + std::max(decodes_microseconds(problem, device) - beside, 0.0);
  }
  if (tuning.short_tokens > 1 && mean_length(problem) <= tuning.short_tokens) {
    return 17.0 + shorts_microseconds(problem, device);
  }
  const double each = std::ceil(parts);
  const bool cut = parts > 1.0 && each > parts * 9 / 8;
  const double mean = mean_length(problem);
  const double all =
      cut ? parts * (walked(mean, longer) + costs.part) : each * (walked(mean, 1.0) + costs.part);
  // Half would leave four of 2048 tokens and 12 heads to chains, which take 96 us for 83.  But of
  // 8000, 100 and 92 tokens and 16 heads those would take 200, this 276.
  constexpr double kDiffer = 0.25;
  // What the second stage takes where it finds nothing to do.
  const double idle = tuning.short_tokens > 1 ? 5.0 : 0.0;
  // Of 32 heads of 256, 1024 and 4096 tokens 18, 42 and 137 us.
  const double start = parts > 1.0 ? 12.0 : 8.0;
  return start + idle + std::max(all, walked(longest_length(problem, kDiffer), 1.0) + costs.part);
}

// A pack's short sequences go by a stage of their own where that is expected to be faster, and
// where a pack of many sequences does not say: 64 decodes beside 4096 tokens, 8 heads, take 181 us
// on an H200 by pairs alone.
tunable::Values defaults(const Problem& problem, const device::Device& device) {
  Tuning tuning{.groups = default_groups(problem)};
  Tuning apart = tuning;
  apart.short_tokens = kShortTokens;
  apart.short_by = prefers_ring(problem, device) ? 2 : 1;
  const auto of = [&](const Tuning& each) {
    return tunable::values_of(each, abi::fused::tunables);
  };
  const bool faster = is_mixed(problem) &&
                      estimate(problem, device, of(apart)) < estimate(problem, device, of(tuning));
  if (faster || may_have_short(problem)) tuning = apart;
  return of(tuning);
}

}  // namespace

int most_segments(const Problem& problem, const device::Device& device) {
  const bool serves = fused.applicable(problem, device) && makes_by_teams(problem) &&
                      !problem.varlen && !problem.state_pool;
  if (!serves) return 1;
  const std::int64_t parts = std::max<std::int64_t>(parts_of(problem, problem.max_sequences), 1);
  return static_cast<int>(std::max<std::int64_t>(pairs_of(device) / parts, 1));
}

Result<compose::Recipe> compose_fused_segments(const Problem& problem, const device::Device& device,
                                               int segments, const KeepSegments& keep) {
  const tunable::Values teams = tunable::values_of(Tuning{.groups = 4}, abi::fused::tunables);
  return compose_parts(problem, device, teams, segments, keep);
}

double fused_segments_microseconds(const Problem& problem, const device::Device& device,
                                   int segments) {
  const double busy = static_cast<double>(parts_of(problem, problem.max_sequences)) * segments /
                      static_cast<double>(pairs_of(device));
  const Costs costs = costs_of(problem, Tuning{.groups = 4}, std::min(busy, 1.0));
  const double chunks = std::ceil(mean_length(problem) / abi::factors::chunk / segments);
  return 12.0 + costs.part +
         (chunks + abi::by_gates::lead_chunks) * costs.step * problem.key_dim / 128;
}

const Strategy fused = {
    "fused",
    "one kernel: pairs of blocks make factors in shared memory and walk them (wgmma, sm_90)",
    applicable,
    space,
    defaults,
    compose_recipe,
    estimate,
};

}  // namespace kda::strategy
