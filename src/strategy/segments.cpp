#include "strategy/segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "abi/segments.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/lengths.hpp"

namespace kda::strategy {
namespace {

using abi::segments::Tuning;
using compose::Launch;
using compose::Run;

Status applicable(const Problem& problem, const device::Device& device) {
  if (problem.state_pool) return {Code::unsupported, "strategy segments: no state pools"};
  if (device.major != 9) {
    return {Code::unsupported,
            fmt::format("strategy segments: {} has compute capability {}.{}; wgmma is 9.0's",
                        device.name, device.major, device.minor)};
  }
  if (problem.qkv_type == DType::f32) {
    return {Code::unsupported,
            "strategy segments: qkv_type is f32; bf16 and f16 are served (chunk serves f32)"};
  }
  if (problem.key_dim <= 32 || problem.key_dim > 128) {
    return {Code::unsupported, fmt::format("strategy segments: key_dim is {}, 33 to 128 are served "
                                           "(chunk serves the others)",
                                           problem.key_dim)};
  }
  return {};
}

tunable::Space space() { return tunable::space_of(abi::segments::tunables); }

// What the cost model, the grids and the checks count.
struct Counts {
  double heads;     // sequences times value heads
  double chunks;    // a sequence of mean length
  double segments;  // likewise
  int value_tiles;  // of 64 V columns
  int key_tiles;    // of 64 columns of T

  Counts(const Problem& problem, const Tuning& tuning)
      : heads(static_cast<double>(problem.max_sequences) * problem.value_heads),
        chunks(std::max(1.0, std::ceil(static_cast<double>(problem.max_tokens) /
                                       problem.max_sequences / tuning.chunk))),
        segments(std::ceil(chunks / tuning.segment)),
        value_tiles(abi::segments::value_tiles(problem::shape_of(problem))),
        key_tiles(abi::chunk::factor_keys(problem::shape_of(problem)) / 64) {}
};

// The factors, then three chains: the chunks of a segment without outputs, the segments of a
// sequence, and the chunks of a segment with outputs or their traffic.  Measured on an H200 with
// gates that keep every transition alive.
double estimate_of(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (is_mixed(problem)) {
    const double blocks = static_cast<double>(problem.max_sequences) * problem.value_heads *
                          abi::segments::value_tiles(problem::shape_of(problem));
    return estimate_of(longest_alone(problem), device, tuning) +
           blocks / std::max(device.multiprocessors, 1) * kShortMicroseconds;
  }
  const Counts counts(problem, tuning);
  const double walked = std::min<double>(tuning.segment, counts.chunks);
  const auto waves = [](double blocks, double at_once) {
    return std::max(1.0, std::ceil(blocks / at_once));
  };
  const double processors = std::max(device.multiprocessors, 1);
  const double outputs =
      waves(counts.heads * counts.segments * counts.value_tiles, 2 * processors) *
      (0.1 + 0.011 * tuning.chunk) * (walked + 1);
  double microseconds = 12.0 + prepare_microseconds(problem, device, tuning.chunk) +
                        std::max(5.0 + outputs, stream_microseconds(problem, device, tuning.chunk));
  if (counts.segments > 1) {
    const double blocks = std::ceil((counts.value_tiles + counts.key_tiles) / 2.0);
    microseconds += 1.0 + waves(counts.heads * (counts.segments - 1) * blocks, processors) *
                              (0.1 + 0.0125 * tuning.chunk) * (walked + 1);
    microseconds += 3.0 + waves(counts.heads * counts.value_tiles, processors) *
                              (1.0 + 0.5 * counts.key_tiles) * (counts.segments - 2);
  }
  return microseconds;
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  constexpr int kShortest = 8;  // chunks a segment: below, T costs more than it saves
  Tuning tuning;
  tuning.prepare_threads = (problem.key_dim > 64 ? 8 : 4) * tuning.chunk;
  Tuning best = tuning;
  double least = std::numeric_limits<double>::infinity();
  const tunable::Space rows = space();  // outlives the loop
  for (const tunable::Row& row : rows) {
    if (row.name != "segment") continue;
    for (const int segment : row.values) {
      if (segment < kShortest) continue;
      tuning.segment = segment;
      const double microseconds = estimate_of(problem, device, tuning);
      if (microseconds >= least) continue;
      least = microseconds;
      best = tuning;
    }
  }
  const Counts counts(problem, best);
  const double blocks = counts.heads * counts.segments * counts.value_tiles;
  // Found by kda-tune on an H200 (tools/results/h200/tuned.md): what one block a multiprocessor
  // leaves of shared memory goes to a deeper ring.
  best.load_stages = blocks <= device.multiprocessors ? 4 : 3;
  best.state_warpgroups = 1;
  // Registers, as in chunk_wgmma.
  const bool fits = problem.value_dim % 64 == 0 && problem.qkv_type == DType::bf16;
  best.warpgroups = fits && counts.value_tiles > 1 && blocks >= 2 * device.multiprocessors ? 2 : 1;
  return tunable::values_of(best, abi::segments::tunables);
}

// Where the segments of a problem's largest run lie in the workspace.
class SegmentSlices {
 public:
  SegmentSlices(const Problem& problem, const Tuning& tuning, compose::Workspace& workspace)
      : chunks_(tuning.segment) {
    const abi::Shape shape = problem::shape_of(problem);
    const auto heads = static_cast<std::size_t>(
        slots_of(problem.max_tokens, problem.max_sequences, tuning.segment * tuning.chunk) *
        problem.value_heads);
    const auto each = [heads](int bytes) { return heads * static_cast<std::size_t>(bytes); };
    states_ = workspace.take(heads * static_cast<std::size_t>(abi::segments::value_tiles(shape)) *
                             static_cast<std::size_t>(abi::segments::tile_bytes(shape)));
    transition_ = workspace.take(each(abi::segments::transition_bytes(shape)));
    transition_rest_ = workspace.take(each(abi::segments::transition_bytes(shape)));
    alive_ = workspace.take(each(abi::segments::flags * static_cast<int>(sizeof(int))));
  }

  abi::segments::Segments at(std::byte* workspace) const {
    abi::segments::Segments segments;
    segments.states = reinterpret_cast<float*>(workspace + states_);
    segments.transition = workspace + transition_;
    segments.transition_rest = workspace + transition_rest_;
    segments.alive = reinterpret_cast<int*>(workspace + alive_);
    segments.chunks = chunks_;
    return segments;
  }

 private:
  int chunks_;
  std::size_t states_, transition_, transition_rest_, alive_;
};

std::int64_t segment_slots(std::int64_t tokens, std::int64_t sequences, const Tuning& tuning) {
  return slots_of(tokens, sequences, tuning.segment * tuning.chunk);
}

Status check_tuning(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  const abi::Shape shape = problem::shape_of(problem);
  if (tuning.chunk == 64 && tuning.warpgroups == 2) {
    return {
        Code::unsupported,
        "strategy segments: chunk=64 with warpgroups=2: registers hold one of them; warpgroups=1 "
        "or chunk=32 does"};
  }
  const int bytes =
      std::max({abi::segments::states_shared_bytes(shape, abi::segments::states_chain(tuning)),
                abi::chunk_wgmma::chain_shared_bytes(shape, abi::segments::outputs_chain(tuning)),
                abi::segments::combine_shared_bytes(shape)});
  if (static_cast<std::size_t>(bytes) > device.shared_per_block) {
    return {Code::unsupported,
            fmt::format("strategy segments: chunk={} load_stages={} state_warpgroups={} "
                        "warpgroups={} need {} bytes of shared memory a block; {} gives {}",
                        tuning.chunk, tuning.load_stages, tuning.state_warpgroups,
                        tuning.warpgroups, bytes, device.name, device.shared_per_block)};
  }
  const int units = abi::segments::value_units(shape, abi::segments::states_chain(tuning)) +
                    abi::segments::key_units(shape, abi::segments::states_chain(tuning));
  const int shards = abi::segments::value_units(shape, abi::segments::outputs_chain(tuning));
  // Factors of at most 2^31, 2^16 and 2^11: no overflow.
  const std::int64_t blocks = segment_slots(problem.max_tokens, problem.max_sequences, tuning) *
                              problem.value_heads * std::max(units, shards);
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    return {Code::unsupported,
            fmt::format("strategy segments: max_tokens={} and max_sequences={} with HV={} and "
                        "segment={} make {} blocks, more than a grid holds; a larger segment or "
                        "fewer sequences a run do",
                        problem.max_tokens, problem.max_sequences, problem.value_heads,
                        tuning.segment, blocks)};
  }
  return {};
}

tunable::Values chain_values(const abi::chunk_wgmma::Tuning& tuning) {
  return {{"chunk", tuning.chunk},
          {"warpgroups", tuning.warpgroups},
          {"load_stages", tuning.load_stages}};
}

// The stages after prepare.
class Stages {
 public:
  Stages(const Problem& problem, const Tuning& tuning, const FactorSlices& factors,
         const SegmentSlices& segments)
      : problem_(problem),
        shape_(problem::shape_of(problem)),
        tuning_(tuning),
        factors_(factors),
        segments_(segments) {}

  compose::Stage states() const {
    const abi::chunk_wgmma::Tuning chain = abi::segments::states_chain(tuning_);
    const int units =
        abi::segments::value_units(shape_, chain) + abi::segments::key_units(shape_, chain);
    compose::Stage stage = walk("states", chain, false);
    stage.shared_bytes =
        static_cast<std::size_t>(abi::segments::states_shared_bytes(shape_, chain));
    stage.bind = [*this, units](const Run& run, Launch& launch) {
      launch.grid[0] = may_cut(run.forward) ? slots(run.forward) * heads() * units : 0;
      launch.set(args(run));
    };
    return stage;
  }

  compose::Stage combine() const {
    compose::Stage stage = named("combine");
    stage.prelude = compose::prelude(shape_, {{"chunk", tuning_.chunk}});
    stage.threads = 128 + 32;
    stage.shared_bytes = static_cast<std::size_t>(abi::segments::combine_shared_bytes(shape_));
    stage.bind = [*this](const Run& run, Launch& launch) {
      launch.grid[0] = may_cut(run.forward)
                           ? static_cast<unsigned>(run.forward.sequences) * heads() *
                                 static_cast<unsigned>(abi::segments::value_tiles(shape_))
                           : 0;
      launch.set(args(run));
    };
    return stage;
  }

  compose::Stage outputs() const {
    const abi::chunk_wgmma::Tuning chain = abi::segments::outputs_chain(tuning_);
    compose::Stage stage = walk("outputs", chain, true);
    stage.shared_bytes =
        static_cast<std::size_t>(abi::chunk_wgmma::chain_shared_bytes(shape_, chain));
    stage.bind = [*this, shards = abi::segments::value_units(shape_, chain)](const Run& run,
                                                                             Launch& launch) {
      launch.grid[0] = slots(run.forward) * heads() * static_cast<unsigned>(shards);
      launch.set(args(run));
    };
    return stage;
  }

 private:
  compose::Stage named(const char* name) const {
    compose::Stage stage;
    stage.name = name;
    stage.file = fmt::format("segments/{}.cu", name);
    stage.entry = fmt::format("kda_segments_{}", name);
    stage.overlaps_previous = true;
    return stage;
  }

  compose::Stage walk(const char* name, const abi::chunk_wgmma::Tuning& chain, bool outputs) const {
    compose::Stage stage = named(name);
    stage.prelude = compose::prelude(shape_, chain_values(chain));
    stage.threads = static_cast<unsigned>(abi::chunk_wgmma::chain_threads(shape_, chain, outputs));
    return stage;
  }

  unsigned heads() const { return static_cast<unsigned>(problem_.value_heads); }
  unsigned slots(const Forward& forward) const {
    return static_cast<unsigned>(segment_slots(forward.tokens, forward.sequences, tuning_));
  }
  // Whether some sequence may have more than one segment.
  bool may_cut(const Forward& forward) const {
    const std::int64_t longest =
        problem_.varlen ? forward.tokens : forward.tokens / std::max(forward.sequences, 1);
    return longest > std::int64_t{tuning_.segment} * tuning_.chunk;
  }

  abi::segments::Args args(const Run& run) const {
    abi::segments::Args args;
    args.chain.in = problem::inputs_of(problem_, run.forward);
    args.chain.out = problem::outputs_of(problem_, run.forward);
    args.chain.factors = factors_.at(run);
    args.segments = segments_.at(run.workspace);
    return args;
  }

  Problem problem_;
  abi::Shape shape_;
  Tuning tuning_;
  FactorSlices factors_;
  SegmentSlices segments_;
};

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::segments::tunables);
  const abi::chunk::PrepareTuning prepare{tuning.chunk, tuning.prepare_threads};
  if (Status status = check_prepare("segments", problem, prepare, device); !status) return status;
  if (Status status = check_tuning(problem, device, tuning); !status) return status;

  compose::Workspace workspace;
  const FactorSlices factors(problem, tuning.chunk, workspace);
  const Stages stages(problem, tuning, factors, SegmentSlices(problem, tuning, workspace));
  compose::Recipe recipe;
  recipe.strategy = "segments";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  recipe.stages.push_back(hopper_prepare_stage(problem, device, prepare, factors));
  recipe.stages.push_back(stages.states());
  recipe.stages.push_back(stages.combine());
  recipe.stages.push_back(stages.outputs());
  return recipe;
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  return estimate_of(problem, device, tunable::tuning_of<Tuning>(values, abi::segments::tunables));
}

}  // namespace

const Strategy segments = {
    "segments", "chunk_wgmma over segments of each sequence at once, exactly (wgmma, sm_90)",
    applicable, space,
    defaults,   compose_recipe,
    estimate,
};

}  // namespace kda::strategy
