// The scratch memory of a group that serves any gate.  Parts of a union live at different times.
#pragma once

#include "ptx/flag.cuh"
#include "sm90/factors/inverse.cuh"
#include "sm90/factors/sizes.cuh"

namespace kda {

// A warp's share of the scores' sums, as its lanes hold them.
using LeftSums = float4[2][32];   // k k and q k of a half: columns 0-7 of the diagonal block
using RightSums = float2[2][32];  // rows 8-15 of its columns 8-15
using BelowSums = float4[2][32];  // columns 0-7 and 8-15 of the block below, k k or q k

// What a walking group's leader remembers (store.cuh), as no register is left to hold it.
struct Departure {
  i64 tile;        // slot * HV + head of the tile at work
  u32* flag;       // of that
  u32* last_flag;  // of the one before, until it is raised; or null
  int number;      // of tiles begun
};

// Sums of squares of k and q, a share a warp; a token's are read together.
using Squares = float[chunk][2][warps];

// Terms of M's and Kr's operands, and of scores: of q k, and of those below the halves.
constexpr int solve_terms = careful ? 2 : 1;
constexpr int score_terms = exact_scores ? 2 : 1;

struct AnyGateScratch {
  // Structs in unions have names: NVRTC before 12.8 finds no member of one that has none.
  struct Sums {
    LeftSums left;
    RightSums right;
    BelowSums below;  // k k with the first half, q k with the second
  };
  struct Decays {
    float whole[2][keys];       // decay over each half
    float whole_log[2][keys];   // its log2
    float middle_log[2][keys];  // log2 decay up to each half's middle
    Squares squares;
  };
  struct Solved {
    char inverse[solve_terms][2][Inverse::bytes];  // [half]
    uint4 below[solve_terms][32];  // f16 operands by lane: Solve::minus_kk_below, then perhaps
                                   // invert_below
    // f16 A operands: first half, second half, below
    uint4 qk[score_terms][3][32];
  };

  // A warp's part of half the tokens: raw g and then D of its slab, then its score sums.
  union Slice {
    float decay[half_tokens][pitch];
    Sums sums;
  };
  Slice slices[warps][2];  // [warp][half]
  union {
    Decays decays;
    float lowers[careful ? 6 : 4][lower_block];
  };
  union {
    Solved solved;
    // [term][warp]: k of the first half to its end, by lane
    uint4 k_after[score_terms][warps][k_steps][32];
    float pairs[2][2][16][16];  // [half]: k k and q k where the vote failed
  };
  float beta[chunk];
  Departure departure;

  KDA_DEVICE LeftSums& left(int warp, int half) { return slices[warp][half].sums.left; }
  KDA_DEVICE RightSums& right(int warp, int half) { return slices[warp][half].sums.right; }
  KDA_DEVICE BelowSums& below_sums(int warp, int which) { return slices[warp][which].sums.below; }
  KDA_DEVICE float* whole(int half) { return decays.whole[half]; }
  KDA_DEVICE char* inverse(int half, int term = 0) { return solved.inverse[term][half]; }
  KDA_DEVICE uint4* below(int term = 0) { return solved.below[term]; }
  KDA_DEVICE uint4* qk(int part, int term = 0) { return solved.qk[term][part]; }
  // beta_i k_i k_j of a diagonal 8 x 8 block: [column * 8 + row].  With care all three of a half:
  // diagonal, below, diagonal.
  KDA_DEVICE float* lower(int block) { return lowers[block]; }
};

}  // namespace kda
