// The scratch memory of a group whose warps have all of their channels to themselves.
#pragma once

#include "sm90/factors/scratch.cuh"
#include "sm90/factors/sizes.cuh"

namespace kda::slabs {

// Half the tokens of a warp's slab, its 16-byte units exchanged as ldmatrix likes them.
using Half = tile::Shared<abi::DType::bf16, half_tokens, slab>;

struct Scratch {
  // A warp's rows of a chunk as they come, a Half and then the other; when they have been read,
  // shares of the sums of scores.
  static constexpr int part = 1024;
  static_assert(Half::bytes <= part);
  using Area = char[2 * part];

  Area q[4];
  Area k[4];
  Area g[4];              // and then shares of the sums below
  float wholes[2][keys];  // decay over each half
  char inverses[2][Inverse::bytes];
  uint4 below_operands[32];  // f16 operands by lane: Solve::minus_kk_below
  union {
    uint4 qk_operands[3][32];  // f16 A operands: first half, second half, below
    Squares squares;
  };
  float beta[chunk];
  Departure departure;

  // Where a half's sums lie in an area: the other half's rows may still be wanted.
  static constexpr int free_part(int half) { return Half::bytes == part ? half : half ^ 1; }

  KDA_DEVICE LeftSums& left(int warp, int half) {
    return reinterpret_cast<LeftSums&>(q[warp][free_part(half) * part]);
  }
  KDA_DEVICE RightSums& right(int warp, int half) {
    return reinterpret_cast<RightSums&>(k[warp][free_part(half) * part]);
  }
  KDA_DEVICE float* whole(int half) { return wholes[half]; }
  KDA_DEVICE char* inverse(int half) { return inverses[half]; }
  KDA_DEVICE uint4* below() { return below_operands; }
  KDA_DEVICE uint4* qk(int part) { return qk_operands[part]; }
  // When all rows have been read.
  KDA_DEVICE BelowSums& below_sums(int warp, int which) {
    return reinterpret_cast<BelowSums&>(g[warp][which * part]);
  }
  // beta_i k_i k_j of a diagonal 8 x 8 block: [column * 8 + row].
  KDA_DEVICE float* lower(int block) {
    return reinterpret_cast<float*>(&k[block][free_part(0) * part + sizeof(RightSums)]);
  }
  static_assert(sizeof(LeftSums) <= part && sizeof(BelowSums) <= part &&
                sizeof(RightSums) + lower_block * 4 <= part);
};

}  // namespace kda::slabs
