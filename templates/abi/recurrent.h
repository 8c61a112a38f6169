// Strategy `recurrent`: one kernel, token by token, the state in registers.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "abi/tunable.h"

namespace kda::abi::recurrent {

struct Tuning {
  int threads = 128;  // per block
  int lanes = 8;      // lanes that share a V column and divide its K channels
  int columns = 2;    // V columns a lane keeps
  int stages = 2;     // of tokens in shared memory: 2 fetch some while others are at work
};

constexpr Tunable<Tuning> tunables[] = {
    {"threads", &Tuning::threads, {32, 64, 128, 256}, "threads a block"},
    {"lanes", &Tuning::lanes, {4, 8, 16, 32}, "lanes that divide a column's K channels"},
    {"columns", &Tuning::columns, {1, 2, 4, 8}, "V columns a lane keeps"},
    {"stages", &Tuning::stages, {1, 2}, "token stages in shared memory; 1 for a few tokens"},
};

// What follows from both.
struct Geometry {
  int unit;            // elements of the state in 16 bytes
  int warp_lanes;      // of the lanes that share a column, those in one warp
  int key_warps;       // warps that the lanes of a column are in
  int channel_run;     // neighbouring channels a lane keeps
  int column_run;      // neighbouring columns a lane keeps
  int lane_channels;   // channels a lane keeps of each of its columns
  int padded_key_dim;  // lanes * lane_channels, at least K
  int block_columns;   // V columns a block keeps
  int slices;          // blocks that share the V of one head
  int tokens;          // tokens staged in shared memory at once
  int resident;        // blocks a multiprocessor whose registers hold all this, as a rule unspilt
};

// A lane keeps whole 16-byte units of the state: along K in [V, K], along V in [K, V].  There eight
// lanes read a line of 128 bytes, so that a warp has room for four that share a column; more are in
// other warps.
constexpr Geometry geometry_of(const Shape& shape, const Tuning& tuning) {
  Geometry g{};
  g.unit = 16 / bytes_of(shape.state_type);
  g.warp_lanes = shape.state_value_first || tuning.lanes < 4 ? tuning.lanes : 4;
  g.key_warps = tuning.lanes / g.warp_lanes;
  g.channel_run = shape.state_value_first ? g.unit : 4;
  g.column_run = shape.state_value_first ? 1 : g.unit;
  const int stretch = tuning.lanes * g.channel_run;
  g.lane_channels = (shape.key_dim + stretch - 1) / stretch * g.channel_run;
  g.padded_key_dim = g.lane_channels * tuning.lanes;
  g.block_columns = tuning.threads / tuning.lanes * tuning.columns;
  g.slices = (shape.value_dim + g.block_columns - 1) / g.block_columns;
  g.tokens = tuning.stages == 1 || tuning.threads / 32 > 4 ? 4 : tuning.threads / 32;
  // The state, its sums a column, what a token brings of every 64 channels, the rest.
  const bool keeps = shape.draft_states || shape.checkpoints;
  int registers = (g.lane_channels + 4) * tuning.columns + g.padded_key_dim / 8 + (keeps ? 96 : 72);
  if (tuning.stages == 1) {
    registers = (g.lane_channels + 2) * tuning.columns + g.padded_key_dim / 16 + (keeps ? 64 : 40);
    if (!shape.state_value_first) registers += (keeps ? 24 : 8) + (g.key_warps > 1 ? 8 : 0);
    // Stores in a loop; of few elements the compiler takes more for them than it needs.
    if (shape.committed_tokens) registers += g.lane_channels * tuning.columns < 64 ? 24 : 8;
  }
  const int quarter_warps = 65536 / 4 / 32 / registers;  // that each of its four schedulers holds
  g.resident = quarter_warps * 4 * 32 / tuning.threads;
  if (g.resident < 1) g.resident = 1;
  return g;
}

// What the kernel is specialised on: a tuning, and whether it is alone.
struct StepTuning {
  int threads = 128;
  int lanes = 8;
  int columns = 2;
  int stages = 2;
  // Over 1: it follows stages of chunks and serves what they leave, sequences of up to so many
  // tokens, while they are still at work.
  int short_tokens = 1;
  // 1: of one stage, whose next tokens' loads nothing hides, these are brought to the L2 meanwhile.
  // Not of runs of one token: 8 decodes took 10.1 us for 9.7 where the kernel asked for more.
  int ahead = 0;
  int spare = 0;  // blocks fewer than Geometry::resident, where the kernel spills beside so many
};
constexpr Tuning tuning_of(const StepTuning& tuning) {
  return {tuning.threads, tuning.lanes, tuning.columns, tuning.stages};
}
constexpr int resident_blocks(const Shape& shape, const StepTuning& tuning) {
  const int blocks = geometry_of(shape, tuning_of(tuning)).resident - tuning.spare;
  return blocks < 1 ? 1 : blocks;
}

// Of the kernel that may take that one's place (sm90/recurrent/short.cu): of a block one warp
// brings slices of states to shared memory, some activate tokens, and four do what a block of
// `step` does.
struct ShortTuning {
  int lanes = 8;
  int columns = 4;
  int states = 2;  // slices in shared memory
  int short_tokens = 8;
};
constexpr Tuning tuning_of(const ShortTuning& tuning) {
  return {128, tuning.lanes, tuning.columns, 1};
}
constexpr int token_warps = 2;
constexpr int short_threads = 128 + 32 + 32 * token_warps;

// A slice: a block's columns of a state in [V, K], where they lie together.
constexpr int slice_bytes(const Shape& shape, const ShortTuning& tuning) {
  const int columns = geometry_of(shape, tuning_of(tuning)).block_columns;
  return (columns * shape.key_dim * bytes_of(shape.state_type) + 127) / 128 * 128;
}
constexpr int short_shared_bytes(const Shape& shape, const ShortTuning& tuning) {
  return tuning.states * slice_bytes(shape, tuning);
}

// Of a Shape with committed_tokens or without.
template <bool committed_tokens>
struct StepArgs {
  Inputs in;
  Outputs out;
};
template <>
struct StepArgs<true> {
  Inputs in;
  Outputs out;
  const void* committed_tokens = nullptr;  // [N], Shape::slot_index_type; null: all
};

}  // namespace kda::abi::recurrent
