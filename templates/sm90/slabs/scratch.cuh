// The scratch memory of a group whose warps have all of their channels to themselves.
#pragma once

#include "sm90/factors/scratch.cuh"
#include "sm90/factors/sizes.cuh"

namespace kda::slabs {

// Half the tokens of a warp's slab, its 16-byte units exchanged as ldmatrix likes them.
using Half = tile::Shared<abi::DType::bf16, half_tokens, slab>;

struct Scratch {
  // A warp's part of half the tokens.
  union Slice {
    struct {
      char q[half_tokens * 32 * 2];  // as they come: Half
      char k[half_tokens * 32 * 2];
      char g[half_tokens * 32 * 2];  // and then k to the half's end
    };
    struct {
      ScoreSums sums;
      float lower[lower_block];
    };
  };
  Slice slices[4][2];    // [warp][half]
  float whole[2][keys];  // decay over each half
  char inverse[2][Inverse::bytes];
  uint4 below[32];  // f16 operands by lane: Solve::minus_kk_below
  union {
    uint4 qk[3][32];             // f16 A operands: first half, second half, below
    float squares[chunk][2][4];  // of k and q, a share a warp
  };
  float beta[chunk];
  Departure departure;

  KDA_DEVICE ScoreSums& sums(int warp, int half) { return slices[warp][half].sums; }
  // beta_i k_i k_j of a diagonal 8 x 8 block: [column * 8 + row].
  KDA_DEVICE float* lower(int block) { return slices[block][0].lower; }
};

}  // namespace kda::slabs
