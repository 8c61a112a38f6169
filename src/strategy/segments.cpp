#include "strategy/segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "abi/factors.h"
#include "abi/segments.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/prepared_by.hpp"
#include "strategy/segments_at_once.hpp"
#include "strategy/segments_cost.hpp"
#include "strategy/tensor_box.hpp"

namespace kda::strategy {
namespace {

using abi::segments::Tuning;
using compose::Launch;
using compose::Run;
using segments_cost::keeps_checkpoints;

Status applicable(const Problem& problem, const device::Device& device) {
  if (Status status = check_kept_states("segments", problem); !status) return status;
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
  // o of segments is kept in the type of q, times the scale; q~ of f16 by a number of its own
  // (abi::segments::query_scale), for which rows of q have unit length.
  if (problem.qkv_type == DType::f16 && (!problem.l2norm_qk || !is_segments_scale(problem.scale))) {
    return {
        Code::unsupported,
        fmt::format("strategy segments: qkv_type is f16 with l2norm_qk = {} and scale = {}; f16 "
                    "is served with l2norm_qk and a scale of {} to {} (chunk_wgmma serves the "
                    "others)",
                    problem.l2norm_qk, problem.scale, kLeastSegmentsScale, kMostSegmentsScale)};
  }
  return {};
}

tunable::Space space() { return tunable::space_of(abi::segments::tunables); }

// Whether T may be given up before it is nothing.  Of random keys and betas around a half that is
// 1,600 to 3,200 tokens after a segment's begin where gates hardly decay, so it is for long ones.
// Not by how many tokens a run has: kernels know nothing of that (tune/small_problem.hpp).
constexpr int kLongSegment = 128;  // chunks
bool gives_up(const Problem& problem, const Tuning& tuning) {
  return tuning.segment >= kLongSegment && abi::segments::never_grows(problem::shape_of(problem));
}

// Whether a run may have what was given up too early.
bool may_go_again(const Problem& problem, const Tuning& tuning) {
  return gives_up(problem, tuning) &&
         problem.max_tokens > std::int64_t{tuning.segment} * tuning.chunk;
}

// Two warpgroups a block of the walk have 168 registers a thread, too few for odd columns, and of
// f16 they take longer (8 heads of 8192 tokens 113 and 149 us for 109 and 132, strong and weak
// gates, an H200, by another form of f16's chains).
bool serves_two(const Problem& problem) {
  return problem.value_dim > 64 && problem.value_dim % 64 == 0 && problem.qkv_type == DType::bf16;
}

// As deep a ring as finds room.
Tuning with_ring(const Problem& problem, Tuning tuning) {
  const abi::Shape shape = problem::shape_of(problem);
  tuning.load_stages = 6;
  while (tuning.load_stages > 1 &&
         abi::segments::walk_shared_bytes(shape, abi::segments::chain_of(tuning)) >
             abi::chunk_wgmma::shared_limit) {
    --tuning.load_stages;
  }
  return tuning;
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  Tuning tuning;
  if (problem.checkpoint_tokens % tuning.chunk != 0) tuning.chunk = 16;
  tuning.prepare_threads = (problem.key_dim > 64 ? 8 : 4) * tuning.chunk;
  // Chunks a segment: below eight T costs more than it saves, but checkpoints may want fewer.
  int shortest = 8;
  while (shortest > 1 && problem.checkpoint_tokens % (tuning.chunk * shortest) != 0) shortest /= 2;
  Tuning best = tuning;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Tuning& one) {
    if (one.warpgroups > 1 && !serves_two(problem)) return;
    const double microseconds = segments_cost::microseconds(problem, device, one);
    if (microseconds >= least) return;
    least = microseconds;
    best = with_ring(problem, one);
  };
  const tunable::Space rows = space();  // outlives the loop
  for (const tunable::Row& row : rows) {
    Tuning one = tuning;
    for (const int value : row.values) {
      if (row.name == "segment") {
        one.segment = value;
        if (value < shortest || !keeps_checkpoints(problem, one)) continue;
      } else if (row.name == "segments" && value > 1) {
        one.segments = value;
      } else {
        continue;
      }
      for (const int warpgroups : {1, 2}) {
        one.warpgroups = warpgroups;
        if (!at_once(one) || segments_at_once::check(problem, device, one)) consider(one);
      }
    }
  }
  return tunable::values_of(best, abi::segments::tunables);
}

// Where the segments of a problem's largest run lie in the workspace.
class SegmentSlices {
 public:
  SegmentSlices(const Problem& problem, const Tuning& tuning, compose::Workspace& workspace)
      : chunks_(tuning.segment) {
    const abi::Shape shape = problem::shape_of(problem);
    const auto heads_of = [&](int tokens) {
      return static_cast<std::size_t>(slots_of(problem.max_tokens, problem.max_sequences, tokens) *
                                      problem.value_heads);
    };
    const auto each = [heads = heads_of(tuning.segment * tuning.chunk)](int bytes) {
      return heads * static_cast<std::size_t>(bytes);
    };
    states_ =
        workspace.take(each(abi::segments::value_tiles(shape) * abi::segments::tile_bytes(shape)));
    transition_ = workspace.take(each(abi::segments::transition_bytes(shape)));
    transition_rest_ = workspace.take(each(abi::segments::transition_bytes(shape)));
    known_ = workspace.take(each(2 * static_cast<int>(sizeof(abi::segments::Transition))));
    finite_ = workspace.take(each(4 * abi::segments::value_tiles(shape)));
    queries_ =
        workspace.take(heads_of(tuning.chunk) *
                       static_cast<std::size_t>(abi::segments::query_bytes(shape, tuning.chunk)));
    if (!gives_up(problem, tuning)) return;
    const int looks = tuning.segment / abi::segments::chunks_a_look;
    looks_ = workspace.take(each(2 * static_cast<int>(sizeof(int))));
    lengths_ =
        workspace.take(each(abi::segments::value_tiles(shape) * looks *
                            abi::segments::noted_floats(shape) * static_cast<int>(sizeof(float))));
    unsure_ = workspace.take(sizeof(unsigned));
  }

  abi::segments::Segments at(std::byte* workspace) const {
    return {
        .states = reinterpret_cast<float*>(workspace + states_),
        .transition = workspace + transition_,
        .transition_rest = workspace + transition_rest_,
        .known = reinterpret_cast<abi::segments::Transition*>(workspace + known_),
        .finite = reinterpret_cast<signed char*>(workspace + finite_),
        .queries = workspace + queries_,
        .chunks = chunks_,
    };
  }
  abi::segments::GivenUp given_up(std::byte* workspace, bool again) const {
    return {
        .looks = reinterpret_cast<int*>(workspace + looks_),
        .lengths = reinterpret_cast<float*>(workspace + lengths_),
        .unsure = reinterpret_cast<unsigned*>(workspace + unsure_),
        .again = again,
    };
  }

 private:
  int chunks_;
  std::size_t states_, transition_, transition_rest_, known_, finite_, queries_;
  std::size_t looks_ = 0, lengths_ = 0, unsure_ = 0;
};

std::int64_t segment_slots(std::int64_t tokens, std::int64_t sequences, const Tuning& tuning) {
  return slots_of(tokens, sequences, tuning.segment * tuning.chunk);
}

Status check_tuning(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  const abi::Shape shape = problem::shape_of(problem);
  if (!keeps_checkpoints(problem, tuning)) {
    return {Code::unsupported,
            fmt::format("strategy segments: checkpoint_tokens={} is not a multiple of a segment's "
                        "{} tokens (chunk={} segment={})",
                        problem.checkpoint_tokens, tuning.chunk * tuning.segment, tuning.chunk,
                        tuning.segment)};
  }
  if (at_once(tuning)) {
    if (Status status = segments_at_once::check(problem, device, tuning); !status) return status;
  }
  if (tuning.chunk == 64 && tuning.warpgroups == 2) {
    return {
        Code::unsupported,
        "strategy segments: chunk=64 with warpgroups=2: registers hold one of them; warpgroups=1 "
        "or chunk=32 does"};
  }
  const int bytes =
      std::max(abi::segments::walk_shared_bytes(shape, abi::segments::chain_of(tuning)),
               abi::segments::correct_shared_bytes(shape, tuning.chunk));
  if (static_cast<std::size_t>(bytes) > device.shared_per_block) {
    return {Code::unsupported,
            fmt::format("strategy segments: chunk={} load_stages={} warpgroups={} need {} bytes of "
                        "shared memory a block; {} gives {}",
                        tuning.chunk, tuning.load_stages, tuning.warpgroups, bytes, device.name,
                        device.shared_per_block)};
  }
  // Factors of at most 2^31, 2^16 and 2^12: no overflow.
  const std::int64_t blocks = segment_slots(problem.max_tokens, problem.max_sequences, tuning) *
                              problem.value_heads * abi::segments::units(shape, tuning.warpgroups);
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    return {Code::unsupported,
            fmt::format("strategy segments: max_tokens={} and max_sequences={} with HV={} and "
                        "segment={} make {} blocks, more than a grid holds; a larger segment or "
                        "fewer sequences a run do",
                        problem.max_tokens, problem.max_sequences, problem.value_heads,
                        tuning.segment, blocks)};
  }
  return check_blocks("segments", problem, abi::segments::value_tiles(shape));
}

static_assert(kFewSequences <= abi::factors::most_walked);

// Whether groups that prepare walk: of short runs (h8 97 us for 100; h8_t65536 took 674 for 625).
bool walks(const Problem& problem, const Tuning& tuning) {
  return tuning.segment <= 64 && (!problem.varlen || problem.max_sequences <= kFewSequences);
}

// The stages after prepare.
class Stages {
 public:
  Stages(const Problem& problem, const device::Device& device, const Tuning& tuning,
         const FactorSlices& factors, const SegmentSlices& segments)
      : problem_(problem),
        shape_(problem::shape_of(problem)),
        multiprocessors_(device.multiprocessors),
        tuning_(tuning),
        factors_(factors),
        segments_(segments) {}

  // again: where the first ones gave up too much of T (abi::segments::GivenUp).
  compose::Stage walk(bool again = false) const {
    const abi::chunk_wgmma::Tuning chain = abi::segments::chain_of(tuning_);
    compose::Stage stage = named("walk", again);
    stage.prelude = prelude({{"chunk", chain.chunk},
                             {"warpgroups", chain.warpgroups},
                             {"load_stages", chain.load_stages}});
    stage.threads = static_cast<unsigned>(
        abi::chunk_wgmma::chain_threads(abi::segments::in_chains(shape_), chain));
    stage.shared_bytes = static_cast<std::size_t>(abi::segments::walk_shared_bytes(shape_, chain));
    stage.bind = [*this, again](const Run& run, Launch& launch) {
      const Forward& forward = run.forward;
      if (again && !may_cut(forward)) return;
      launch.grid[0] =
          static_cast<unsigned>(segment_slots(forward.tokens, forward.sequences, tuning_)) *
          heads() * static_cast<unsigned>(abi::segments::units(shape_, tuning_.warpgroups));
      using abi::segments::Args;
      Args bound = args(run, again);
      const std::optional<RowBoxes> rows =
          abi::chunk_wgmma::maps_rows(shape_, abi::segments::chain_of(tuning_))
              ? boxes_of_rows(problem_, bound.chain.in, bound.chain.out, tuning_.chunk)
              : std::nullopt;
      set_with_rows(launch, bound, rows);
    };
    return stage;
  }

  compose::Stage correct(bool again = false) const {
    compose::Stage stage = named("correct", again);
    stage.prelude = prelude({{"chunk", tuning_.chunk}});
    stage.threads = 128 + 3 * 32;
    stage.shared_bytes =
        static_cast<std::size_t>(abi::segments::correct_shared_bytes(shape_, tuning_.chunk));
    stage.bind = [*this, again](const Run& run, Launch& launch) {
      const unsigned parts = may_cut(run.forward) ? parts_of(run.forward) : 0;
      abi::segments::Args bound = args(run, again);
      bound.segments.parts = static_cast<int>(parts);
      launch.grid[0] = lines(run.forward) * parts;
      launch.set(bound);
    };
    return stage;
  }

 private:
  compose::Stage named(const char* name, bool again) const {
    compose::Stage stage;
    stage.name = fmt::format("{}{}", name, again ? "_again" : "");
    stage.file = fmt::format("segments/{}.cu", name);
    stage.entry = fmt::format("kda_segments_{}", name);
    stage.overlaps_previous = true;
    return stage;
  }

  std::string prelude(tunable::Values tuning) const {
    if (gives_up(problem_, tuning_)) tuning.push_back({"gives_up", 1});
    return compose::prelude(shape_, tuning);
  }

  unsigned heads() const { return static_cast<unsigned>(problem_.value_heads); }
  // (sequence, value head, 64 V columns)
  unsigned lines(const Forward& forward) const {
    return static_cast<unsigned>(forward.sequences) * heads() *
           static_cast<unsigned>(abi::segments::value_tiles(shape_));
  }
  // Blocks a line: as many as fill the device, if there are chunks for them.
  unsigned parts_of(const Forward& forward) const {
    const std::int64_t most = forward.tokens / tuning_.chunk + 1;
    return static_cast<unsigned>(std::clamp<std::int64_t>(
        multiprocessors_ / std::max<std::int64_t>(lines(forward), 1), 1, most));
  }
  // Whether some sequence may have more than one segment.
  bool may_cut(const Forward& forward) const {
    const std::int64_t longest =
        problem_.varlen ? forward.tokens : forward.tokens / std::max(forward.sequences, 1);
    return longest > std::int64_t{tuning_.segment} * tuning_.chunk;
  }

  abi::segments::Args args(const Run& run, bool again) const {
    abi::segments::Args args{
        .chain = {.in = problem::inputs_of(problem_, run.forward),
                  .out = problem::outputs_of(problem_, run.forward),
                  .factors = factors_.at(run)},
        .segments = segments_.at(run.workspace),
    };
    if (gives_up(problem_, tuning_)) args.given_up = segments_.given_up(run.workspace, again);
    return args;
  }

  Problem problem_;
  abi::Shape shape_;
  int multiprocessors_;
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

  if (at_once(tuning)) {
    return segments_at_once::compose_recipe(problem, device, tuning, values);
  }
  compose::Workspace workspace;
  const FactorSlices factors(problem, tuning.chunk, workspace);
  const Stages stages(problem, device, tuning, factors, SegmentSlices(problem, tuning, workspace));
  compose::Recipe recipe;
  recipe.strategy = "segments";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  recipe.stages.push_back(
      hopper_prepare_stage(problem, device, prepare, factors, walks(problem, tuning)));
  recipe.stages.push_back(stages.walk());
  recipe.stages.push_back(stages.correct());
  if (may_go_again(problem, tuning)) {
    recipe.stages.push_back(stages.walk(true));
    recipe.stages.push_back(stages.correct(true));
  }
  return recipe;
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  return segments_cost::expected_microseconds(
      problem, device, tunable::tuning_of<Tuning>(values, abi::segments::tunables));
}

}  // namespace

const Strategy segments = {
    "segments", "chunk_wgmma over segments of each sequence at once, exactly (wgmma, sm_90)",
    applicable, space,
    defaults,   compose_recipe,
    estimate,
};

}  // namespace kda::strategy
