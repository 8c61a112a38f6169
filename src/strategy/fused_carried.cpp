#include "strategy/fused_carried.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "abi/by_gates.h"
#include "abi/chunk.h"
#include "abi/factors.h"
#include "compose/workspace.hpp"
#include "problem/shape.hpp"
#include "strategy/carried_states.hpp"
#include "strategy/fused.hpp"
#include "strategy/gates.hpp"
#include "strategy/lengths.hpp"

namespace kda::strategy {

// Of 16-bit states in [K, V] the walk would spill.
bool serves_carried(const Problem& problem) {
  return problem.state_type == DType::f32 || problem.state_layout == StateLayout::value_first;
}

namespace {

Cut cut_of(const Problem& problem, int segments) {
  return {.segments = segments, .most = std::int64_t{segments} * problem.max_sequences};
}

// Of a segment, at most: in a run of one sequence.
std::int64_t most_chunks(const Problem& problem, int segments) {
  const std::int64_t tokens = std::int64_t{segments} * abi::factors::chunk;  // of one chunk each
  return std::max<std::int64_t>((problem.max_tokens + tokens - 1) / tokens, 1);
}

}  // namespace

bool keeps_all(const Problem& problem, int segments) {
  return most_chunks(problem, segments) <= abi::by_gates::most_kept;
}

bool keeps_all(const Problem& problem, int segments, const Forward& run) {
  return cut_of(problem, segments).chunks(run, abi::factors::chunk) <= abi::by_gates::most_kept;
}

Result<compose::Recipe> compose_fused_carried(const Problem& problem, const device::Device& device,
                                              int segments) {
  const abi::Shape shape = problem::shape_of(problem);
  const Cut cut = cut_of(problem, segments);
  compose::Workspace workspace;
  const CarriedStates states(problem, cut, workspace);
  const int most = static_cast<int>(
      std::min<std::int64_t>(abi::by_gates::most_kept, most_chunks(problem, segments)));
  const std::int64_t chunks =
      std::int64_t{segments - 1} * problem.max_sequences * most * problem.value_heads;
  const std::size_t images =
      workspace.take(static_cast<std::size_t>(chunks) *
                     static_cast<std::size_t>(abi::chunk::image(shape, abi::factors::chunk).bytes));

  const GiveSegments give = [=](const compose::Run& run, abi::segments::Args& args) {
    states.give(args, run.workspace, cut.chunks(run.forward, abi::factors::chunk));
    args.chain.factors.images = reinterpret_cast<char*>(run.workspace + images);
    args.carried.kept = most;
    args.chain.in.scale = 1.0F;  // teams' factors are those of scaled queries
  };
  const KeepSegments keep = [=](const compose::Run& run, abi::fused::Kept& kept) {
    abi::segments::Args args;
    give(run, args);
    kept = {.images = args.chain.factors.images,
            .chunks = args.carried.kept,
            .states = args.segments.states,
            .lengths = args.carried.lengths,
            .ends = args.carried.ends};
  };
  // Nothing is cut between its pairs, and so all of the workspace is what is kept.
  Result<compose::Recipe> recipe = compose_fused_segments(problem, device, segments, keep);
  if (!recipe) return recipe;
  constexpr int kLoadStages = 6;
  recipe->workspace_bytes = workspace.bytes();
  recipe->stages.push_back(carry_stage(problem, cut, kLoadStages, give));
  return recipe;
}

double fused_carried_microseconds(const Problem& problem, const device::Device& device,
                                  int segments) {
  constexpr double kGone = 110.0;  // chunks
  if (mean_length(problem) < kGone * segments * abi::factors::chunk) {
    return std::numeric_limits<double>::infinity();
  }
  // Long runs take a twelfth more than pairs of few chunks; and, but where gates forget at once,
  // what is kept and carried.
  const double kept = std::min(mean_length(problem) / segments / abi::factors::chunk,
                               double{abi::by_gates::most_kept});
  return 1.08 * fused_segments_microseconds(problem, device, segments) + 10.0 +
         (1 - forget_share(problem)) * (0.15 * kept + 0.5 * kGone);
}

}  // namespace kda::strategy
