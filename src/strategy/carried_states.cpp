#include "strategy/carried_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "abi/factors.h"
#include "compose/prelude.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/tensor_box.hpp"

namespace kda::strategy {

using abi::segments::Args;
using compose::Launch;
using compose::Run;

CarriedStates::CarriedStates(const Problem& problem, const Cut& cut,
                             compose::Workspace& workspace) {
  const abi::Shape shape = problem::shape_of(problem);
  const auto tiles_of = [&](std::int64_t slots) {
    return static_cast<std::size_t>(slots * problem.value_heads *
                                    abi::segments::value_tiles(shape));
  };
  // Of N sequences at most N * (segments + 1) slots, whose chunks are half as many again as there
  // are, where there are two a sequence, and one each.
  const std::int64_t slots = std::int64_t{problem.max_sequences} * (cut.segments + 1);
  const std::int64_t looks = slots * abi::segments::carry_looks(32) +
                             abi::segments::carry_looks(static_cast<int>(
                                 problem.max_tokens / abi::factors::chunk * 3 / 2));
  const std::size_t tiles = tiles_of(slots);
  const auto tile_bytes = static_cast<std::size_t>(abi::segments::tile_bytes(shape));
  states_ = workspace.take(tiles * tile_bytes);
  carried_ = workspace.take(tiles * tile_bytes);
  ends_ = workspace.take(tiles * sizeof(unsigned));
  lengths_ =
      workspace.take(tiles_of(looks) *
                     static_cast<std::size_t>(abi::segments::noted_floats(shape)) * sizeof(float));
  const auto image_bytes = static_cast<std::size_t>(abi::segments::transition_bytes(shape));
  transition_ = workspace.take(tiles * image_bytes);
  transition_rest_ = workspace.take(tiles * image_bytes);
}

void CarriedStates::give(Args& args, std::byte* workspace, int chunks) const {
  args.segments.states = reinterpret_cast<float*>(workspace + states_);
  args.segments.transition = workspace + transition_;
  args.segments.transition_rest = workspace + transition_rest_;
  args.segments.chunks = chunks;
  args.carried.states = reinterpret_cast<float*>(workspace + carried_);
  args.carried.lengths = reinterpret_cast<float*>(workspace + lengths_);
  args.carried.ends = reinterpret_cast<unsigned*>(workspace + ends_);
}

compose::Stage stage_of_segments(const char* name, const Problem& problem, const Cut& cut,
                                 const abi::chunk_wgmma::Tuning& chain, bool adds,
                                 const GiveSegments& give) {
  const abi::Shape shape = problem::shape_of(problem);
  compose::Stage stage;
  stage.name = name;
  stage.file = fmt::format("segments/{}.cu", name);
  stage.entry = fmt::format("kda_segments_{}", name);
  stage.overlaps_previous = true;
  stage.prelude = compose::prelude(shape, {{"chunk", chain.chunk},
                                           {"warpgroups", chain.warpgroups},
                                           {"load_stages", chain.load_stages},
                                           {"stages_at_once", chain.stages_at_once},
                                           {"carried", 1}});
  stage.threads = static_cast<unsigned>(abi::chunk_wgmma::chain_threads(shape, chain));
  stage.shared_bytes = static_cast<std::size_t>(abi::segments::walk_shared_bytes(shape, chain));
  stage.bind = [problem, shape, cut, chain, adds, give](const Run& run, Launch& launch) {
    const std::int64_t slots = slots_of(run.forward.tokens, run.forward.sequences,
                                        cut.chunks(run.forward, chain.chunk) * chain.chunk);
    launch.grid[0] = static_cast<unsigned>(slots * problem.value_heads *
                                           abi::segments::value_units(shape, chain.warpgroups));
    Args args{.chain = {.in = problem::inputs_of(problem, run.forward),
                        .out = problem::outputs_of(problem, run.forward)}};
    give(run, args);
    std::optional<RowBoxes> rows;
    if (abi::chunk_wgmma::maps_rows(shape, chain)) {
      rows = boxes_of_rows(problem, args.chain.in, args.chain.out, chain.chunk);
    }
    if (rows && adds) rows->v = rows->o;
    set_with_rows(launch, args, rows);
  };
  return stage;
}

compose::Stage carry_stage(const Problem& problem, const Cut& cut, int load_stages,
                           const GiveSegments& give) {
  constexpr int kRoomForTransition = 3;  // of which the ring is the place, once it is wanted
  const abi::chunk_wgmma::Tuning chain{.chunk = abi::factors::chunk,
                                       .warpgroups = 1,
                                       .load_stages = std::max(load_stages, kRoomForTransition)};
  return stage_of_segments("carry", problem, cut, chain, true, give);
}

}  // namespace kda::strategy
