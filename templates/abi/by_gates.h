// Strategy by_gates: of runs whose gates forget within some tokens the segments of a sequence are
// independent of each other, and strategy fused walks them at once; others go another way
// (abi/guard.h), as no plan knows a run's gates.  Of long segments (`carries`) all go the first
// way, and what was before is carried into them until it is forgotten (sm90/segments/carry.cu):
// there is no other way, unless segments are so long that it may not be forgotten in time.
#pragma once

#include "abi/guard.h"
#include "abi/tensors.h"
#include "abi/tunable.h"

namespace kda::abi::by_gates {

struct Tuning {
  int segments = 2;   // of a sequence, where gates forget
  int otherwise = 2;  // strategy where they do not: 2 chunk_wgmma, 3 segments
  int carries = 1;  // 2: states are carried into segments, whatever gates are, and forgotten there
};
inline constexpr Tunable<Tuning> tunables[] = {
    {"segments",
     &Tuning::segments,
     {2, 3, 4, 5, 6, 7, 8, 10, 13, 16, 22, 33},
     "pieces of a sequence that are walked at once where gates forget"},
    {"otherwise",
     &Tuning::otherwise,
     {2, 3},
     "where they do not: 2 chunk_wgmma, 3 segments; with carries=2 only of segments of more than "
     "256 chunks"},
    {"carries",
     &Tuning::carries,
     {1, 2},
     "2: states are carried into segments until they are forgotten, by keys and gates of any kind; "
     "1: gates forget them within 64 tokens"},
};

// Chunks before a segment that are walked with it, from nothing.
constexpr int lead_chunks = 2;

// What came before is forgotten where the transition of the lead, T with S_end = T S_begin + ...,
// has no row whose absolute values add up to more: as of strategy segments, whose T has then come
// to nothing.
constexpr float forgotten = 0x1p-64F;

// A segment's first chunk, of so many of a sequence: all segments are as long with their leads, of
// which the first has none.
constexpr int first_chunk(long long chunks, int index, int segments) {
  if (index == 0) return 0;
  const long long all = chunks + lead_chunks * (segments - 1);
  return static_cast<int>(all * index / segments) - lead_chunks * (index - 1);
}

// Of the kernel that looks at gates first: blocks, each with a word for what it has found; threads,
// one a key channel of so many tokens of a lead.
constexpr int blocks = guard_words;
constexpr int quarters = 4;
constexpr int threads(int key_dim) { return key_dim * quarters; }

// It looks for leads whose log decays are far enough below 0: of each quarter the largest of its
// channels' sums, added up over the quarters.  Their T is as good as always below `forgotten`;
// where it is not the pair of the segment finds so.
constexpr float least_decay = -51.0F;

struct LookArgs {
  Inputs in;
  unsigned* found = nullptr;  // [blocks]
  int segments = 1;
  bool other = false;    // whether the run is to go the other way whatever its gates are
  bool carries = false;  // whether nothing but that counts
};

// Chunks of each later segment whose factors are kept for what is carried into it: at first a chunk
// of each team's, and no more where T of the segment's first two has come to nothing; else so many
// at most, as weak gates and random keys forget in some 110.  A run that has not by the last look
// at that before these end (abi::segments::is_carry_look), in segments that go on, goes the other
// way after all.
constexpr int most_kept = 256;
constexpr int kept_where_forgotten = 8;

}  // namespace kda::abi::by_gates
