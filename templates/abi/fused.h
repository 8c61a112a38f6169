// Strategy `fused`: one kernel, in which two blocks of a cluster share a sequence and value head.
// Groups of warps make its chunks' factors in shared memory (abi/factors.h), every second chunk
// each block; a warpgroup of each walks all of them for 64 V columns.  Factors meet no memory.
#pragma once

#include "abi/factors.h"
#include "abi/state_box.h"
#include "abi/tensor_map.h"
#include "abi/tunable.h"

namespace kda::abi::fused {

struct Tuning {
  int groups = 3;        // a block, that make factors
  int short_tokens = 1;  // sequences of up to so many go token by token, a stage of their own
  int short_by = 1;      // 2: their states come by rings, where no pair is
};

constexpr Tunable<Tuning> tunables[] = {
    {"groups",
     &Tuning::groups,
     {2, 3, 4},
     "groups a block that make factors: 2 or 3 of four warps, 4 of two"},
    {"short_tokens",
     &Tuning::short_tokens,
     {1, 8},
     "varlen: sequences of up to so many tokens are a second stage's; 1: none"},
    {"short_by",
     &Tuning::short_by,
     {1, 2},
     "2: short sequences' states by rings, on multiprocessors of their own; 1: by registers, "
     "wherever there is room"},
};

// Whether the groups are teams of two warps (sm90/teams).
constexpr bool by_teams(int groups) { return groups == 4; }

constexpr int blocks = 2;    // a cluster
constexpr int columns = 64;  // V columns a block

// Problems that it serves, of those that groups serve.
constexpr bool serves(const Shape& shape) {
  return factors::serves(shape) && shape.key_dim <= 128 &&
         shape.value_dim % (blocks * columns) == 0 && !shape.draft_states && !shape.wy_tensors;
}

// Threads a block: groups, and the warpgroup that walks.
constexpr int group_threads(int groups) {
  return by_teams(groups) ? factors::team_threads : 128;  // four warps, as K is at most 128
}
constexpr int threads(int groups) { return group_threads(groups) * groups + 128; }

// Registers a thread of each: what groups need, and what is left of 64 K.
constexpr int group_registers(int groups) {
  return by_teams(groups) ? 160 : (groups == 3 ? 112 : 144);
}
constexpr int walk_registers(int groups) {
  return by_teams(groups) ? 184 : (groups == 3 ? 176 : 208);
}
constexpr bool registers_fit(int groups) {
  const int all = 64 * 1024 / threads(groups) / 8 * 8 * threads(groups);
  return (threads(groups) - 128) * group_registers(groups) + 128 * walk_registers(groups) <= all;
}
static_assert(registers_fit(2) && registers_fit(3) && registers_fit(4));

// Where things lie in a block's dynamic shared memory, in bytes: groups first.
struct Layout {
  int group;     // bytes of one
  int arriving;  // chunks that the other block has made
  int slots;     // how many, and bytes of each
  int slot;
  int barriers;  // in what the last group's buffer leaves, or the last slot
  int steps;     // what the warps that walk want to know of chunks
  int values;    // v of a chunk and o of one; or of three, each of which v comes to and o leaves
  int places;    // of v
  int kept;   // a checkpoint on its way, a box a warp that walks; or 0: they leave from registers
  int notes;  // of teams
  int bytes;
};
constexpr int barrier_bytes(bool teams) { return teams ? 248 : 184; }
constexpr int memory_bytes = 128;  // what a group remembers, behind its scratch
constexpr int notes_bytes = 256;   // the same of a team, and beta
constexpr int step_bytes = 16;
// What the warps that walk note, behind the image of the first arriving slot; behind that of the
// last one lie the steps.
constexpr int tasks_bytes(const Shape& shape) {
  const int image = chunk::image(shape, factors::chunk).bytes;
  return (image + 1023) / 1024 * 1024 - image;
}
constexpr Layout layout(const Shape& shape, int groups) {
  const bool teams = by_teams(groups);
  const int notes = teams ? groups * notes_bytes : 0;
  const int limit = 227 * 1024 - notes;
  Layout l{};
  l.places = teams ? 3 : 1;
  const int values = (teams ? 3 : 2) * factors::chunk * columns * 2;
  l.group = teams ? factors::team_bytes(shape) : factors::group_bytes(shape, 2);
  l.arriving = groups * l.group;
  const int image = chunk::image(shape, factors::chunk).bytes;
  l.slot = (image + 1023) / 1024 * 1024;
  const int kept = shape.checkpoints && state_box::serves(shape) ? 4 * state_box::bytes(shape) : 0;
  const int room = (limit - l.arriving - values) / l.slot;
  const int left = (limit - l.arriving - values - kept) / l.slot;
  const bool keeps = kept > 0 && left >= 2;
  l.slots = keeps ? left : room;
  if (l.slots > 4) l.slots = 4;
  const int rest = l.arriving + (l.slots - 1) * l.slot + image;
  l.barriers = teams ? rest : l.arriving - barrier_bytes(teams);
  l.steps = teams ? (rest + barrier_bytes(teams) + step_bytes - 1) / step_bytes * step_bytes : rest;
  l.values = l.arriving + l.slots * l.slot;
  l.bytes = l.values + values;
  if (keeps) {
    l.kept = l.bytes;
    l.bytes += kept;
  }
  l.notes = l.bytes;
  l.bytes += notes;
  return l;
}
// Chunks until makers, groups, slots and the phases of their barriers are the same again.
constexpr int steps(const Layout& layout, int groups) {
  int rounds = layout.slots;
  while (rounds % groups != 0) rounds += layout.slots;
  return blocks * 2 * rounds;
}
// Whether barriers and steps find room.
constexpr bool fits(const Shape& shape, int groups) {
  const Layout l = layout(shape, groups);
  const int room = by_teams(groups)
                       ? tasks_bytes(shape)
                       : factors::group_bytes(shape, 2) - factors::buffer_bytes(shape, 2) -
                             factors::scratch_bytes(shape) - memory_bytes;
  return room >= barrier_bytes(by_teams(groups)) && l.slots >= 2 &&
         l.steps + steps(l, groups) * step_bytes <= l.values;
}

// Parts that are cut: the state after a part's first chunks, on its way from the pair of blocks
// that has walked them to the one that goes on.  A slot a pair, by the one that takes.
struct Cuts {
  char* states = nullptr;               // [pairs, blocks] of state_bytes, as the threads hold it
  unsigned long long* ready = nullptr;  // [pairs, blocks, 4 warps] `present` once it is there,
                                        // until it has been taken: they need not be cleared before
};
constexpr unsigned long long present = 0x9c6e1f5b3a7d2048ULL;
constexpr int state_bytes(const Shape& shape) { return shape.key_dim * columns * 4; }

// What is left where a dense run's segments begin from nothing, for the stage that carries states
// into them (abi::segments::Carried, sm90/segments/carry.cu).
struct Kept {
  char* images = nullptr;    // [segments - 1, N, chunks, HV]: of each later segment's first chunks
  int chunks = 0;            // so many at most (abi::by_gates::most_kept)
  float* states = nullptr;   // after each segment, as abi::segments::Segments::states
  float* lengths = nullptr;  // as abi::segments::Carried
  unsigned* ends = nullptr;  // likewise, made `unknown` or `unknown_little_kept`
};

struct Args {
  Inputs in;
  Outputs out;
  Cuts cuts;
  TensorMap v, o;     // of in.v and out.o: a block's columns a slab, boxes of a chunk
  bool maps = false;  // whether their layouts can have them
  factors::RawMaps raw;
  state_box::Pool checkpoints;
  Kept kept;
};

}  // namespace kda::abi::fused
