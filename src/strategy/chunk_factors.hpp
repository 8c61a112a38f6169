// The prepare stage and its factors in the workspace: what the chunk strategies share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "abi/chunk.h"
#include "compose/recipe.hpp"
#include "compose/workspace.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"

namespace kda::strategy {

// Where the factors of a problem's largest run lie in the workspace.
class FactorSlices {
 public:
  // flags: with a word a chunk and value head that says when they are ready.
  FactorSlices(const Problem& problem, int chunk, compose::Workspace& workspace,
               bool flags = false);

  abi::chunk::Factors at(const compose::Run& run) const;

 private:
  int chunk_;
  bool flags_;
  std::size_t images_, ready_;
};

// Chunk slots of a run (templates/base/varlen.cuh).
inline std::int64_t slots_of(std::int64_t tokens, std::int64_t sequences, int chunk) {
  return tokens / chunk + sequences;
}

// ok, or unsupported where the stage cannot serve; `name` is the strategy's.
Status check_prepare(std::string_view name, const Problem& problem,
                     const abi::chunk::PrepareTuning& tuning, const device::Device& device);

// ok, or unsupported where a recurrence of so many blocks a (sequence, value head) passes a grid's
// limit.
Status check_blocks(std::string_view name, const Problem& problem, int shards);

compose::Stage prepare_stage(const Problem& problem, const abi::chunk::PrepareTuning& tuning,
                             const FactorSlices& slices);

// prepare_stage, or where it serves the stage that prepares by groups: the same factors.  walking:
// a group takes one chunk after another, else there is one for each.  early_blocks: where
// there are so many chunks at most, each a group's, the next stage may begin, and bring its states,
// once all have begun.
compose::Stage hopper_prepare_stage(const Problem& problem, const device::Device& device,
                                    const abi::chunk::PrepareTuning& tuning,
                                    const FactorSlices& slices, bool walking = false,
                                    std::int64_t early_blocks = 0);

// Blocks of a recurrence beside which others run.
struct ChainBlocks {
  std::int64_t each;  // a sequence
  std::int64_t most;

  std::int64_t of(std::int64_t sequences) const { return std::min(sequences * each, most); }
};

// How a dense run's sequences are cut into segments, alike but for their last ones.
struct Cut {
  int segments = 1;       // of each sequence, at most
  std::int64_t most = 1;  // of all

  bool exists() const { return segments > 1; }
  // Chunks a segment.
  int chunks(const Forward& forward, int chunk) const;
};

// How groups walk beside a recurrence.
struct Beside {
  ChainBlocks chains;    // of the recurrence
  int preparers = 100;   // percent of what these leave of the device that prepares
  int short_tokens = 1;  // as of abi::chunk::PrepareTuning
  bool ahead = false;    // as of abi::chunk::Walk
  Cut cut = {};          // what the recurrence walks at once of a dense run's sequences
};

// The same, by groups, for a recurrence that runs beside it.  The slices have flags.
compose::Stage prepare_beside_stage(const Problem& problem, const device::Device& device,
                                    const FactorSlices& slices, const Beside& beside);

// Microseconds to prepare and to stream the factors: the larger of their traffic, with the inputs,
// the outputs and the states moved once, and of the prepare stage's instructions (measured on an
// H200: 4.4 us of a multiprocessor for 32 tokens of 128 channels).
double factor_microseconds(const Problem& problem, const device::Device& device, int chunk);

// A block of one chunk takes a multiprocessor so long, waiting for its state: what 256 decodes by
// chunks add to a prefill on an H200, over their blocks.
constexpr double kShortMicroseconds = 8;

// The two apart, on a Hopper: hopper_prepare_stage (2.05 us where groups prepare, 2.5 with care),
// and what reading the factors and v, writing o and moving the states take.
double prepare_microseconds(const Problem& problem, const device::Device& device, int chunk);
double stream_microseconds(const Problem& problem, const device::Device& device, int chunk);

// How many times as long strategies take whose stages meet in memory as on an H200, of which their
// models are: a fit of whole estimates.  On an H100 16 heads take 1.11, 24 heads 1.17, 8 heads by
// segments 1.15, 32 heads 1.14 times as long.
double slower_memory(const device::Device& device);

// What a chain of wgmma waits in a chunk for its rows, where V is no multiple of 8 and warps move
// them by pairs of elements or one by one; 0 elsewhere.
double by_hand_microseconds(const Problem& problem, int chunk);

}  // namespace kda::strategy
