// What strategies leave whose segments of a dense run's sequences begin from nothing, and the stage
// that carries the states before them into them (templates/sm90/segments/carry.cu).
#pragma once

#include <cstddef>
#include <functional>

#include "abi/chunk_wgmma.h"
#include "abi/segments.h"
#include "compose/recipe.hpp"
#include "compose/workspace.hpp"
#include "kda/kda.hpp"
#include "strategy/chunk_factors.hpp"

namespace kda::strategy {

// Where segments' states, and how long they were, lie in the workspace.
class CarriedStates {
 public:
  CarriedStates(const Problem& problem, const Cut& cut, compose::Workspace& workspace);

  // chunks: a segment.
  void give(abi::segments::Args& args, std::byte* workspace, int chunks) const;

 private:
  std::size_t states_, carried_, ends_, lengths_, transition_, transition_rest_;
};

// What a stage of segments is given but their tensors: factors, and CarriedStates.
using GiveSegments = std::function<void(const compose::Run&, abi::segments::Args&)>;

// A stage of blocks that have V columns of a segment and value head each: `name`.cu.  give: what it
// reads but the run's tensors.  adds: to o, and so reads that for v.
compose::Stage stage_of_segments(const char* name, const Problem& problem, const Cut& cut,
                                 const abi::chunk_wgmma::Tuning& chain, bool adds,
                                 const GiveSegments& give);

// The stage `carry`, with rings of so many chunks or more.
compose::Stage carry_stage(const Problem& problem, const Cut& cut, int load_stages,
                           const GiveSegments& give);

}  // namespace kda::strategy
