// What a team works in, beside the image that it makes.
#pragma once

#include "sm90/factors/inverse.cuh"
#include "sm90/factors/sizes.cuh"

namespace kda::teams {

constexpr int warps = abi::factors::team_warps;
constexpr int wide = keys / warps;  // channels a warp
constexpr int steps = wide / 16;    // of its products
constexpr int scratch_at = abi::factors::team_scratch_at(shape);
constexpr int team_bytes = abi::factors::team_bytes(shape);

// Half the tokens' rows as they come.  The second half's come to where their factors will stand.
using Half = tile::Shared<abi::DType::bf16, half_tokens, keys>;

// A warp's share of the scores that the other one takes, k k or q k, as its lanes hold them.
struct Share {
  float4 left[2][32];   // of a half: columns 0-7 of the diagonal block
  float4 below[2][32];  // columns 0-7 and 8-15 of the block below the halves
  float2 right[2][32];  // of a half: rows 8-15 of columns 8-15
};

// Raw rows of the first half, until they have been read.
struct RawRows {
  char q[Half::bytes];
  char g[Half::bytes];
};

// Shares of the scores, when the second half's rows have been begun.
struct Shares {
  Share qk;
  union {
    Share kk;
    float lowers[4][lower_block];  // beta_i k_i k_j of diagonal blocks: [column * 8 + row]
  };
};

struct Scratch {
  float whole[128];     // decay over the second half; then what follows is where a swizzle starts
  char k[Half::bytes];  // of the first half
  union {
    RawRows rows;
    Shares shares;
  };
  union {
    char inverse[2][Inverse::bytes];
    float2 squares[2][half_tokens][warps];  // of k and q, a share a warp
  };
};
static_assert(sizeof(Scratch) <= abi::factors::team_scratch_bytes(shape));
static_assert((scratch_at + sizeof(float[128])) % 1024 == 0);

}  // namespace kda::teams
