// One chunk's folded factors as they are made in shared memory, by a group of warps (sm90/factors,
// sm90/slabs) or a team of 2 (sm90/teams).
#pragma once

#include "abi/chunk.h"
#include "abi/shape.h"
#include "abi/tensor_map.h"

namespace kda::abi::factors {

constexpr int chunk = 32;  // tokens

// A group: four warps, or as many as have 32 channels each.
constexpr int warps(const Shape& shape) { return shape.key_dim > 128 ? shape.key_dim / 32 : 4; }
constexpr int threads(const Shape& shape) { return 32 * warps(shape); }
constexpr int slab(const Shape& shape) { return shape.key_dim / warps(shape); }  // channels a warp

struct Tuning {
  int groups = 1;        // a block, each with chunks of its own
  int flags = 0;         // 1: one is raised for each chunk, as others wait for it
  int slabs = 0;         // 1: each warp makes its channels' rows by itself (sm90/slabs, teams)
  int short_tokens = 1;  // as of chunk::PrepareTuning
  int beside = 0;        // 1: a warpgroup of the block walks what they make (strategy fused)
  int segments = 1;      // of each part, which pairs walk at once (strategy by_gates)
  int abreast = 0;       // 1: groups take segments abreast, as others walk them at once
  int carried = 0;       // 1: segments begin from nothing, and states are carried into them
};

// Problems that it serves: unit keys written at most once, so that its 16-bit operands are in
// range.
constexpr bool serves(const Shape& shape) {
  return shape.qkv_type == DType::bf16 && shape.key_dim % 64 == 0 &&
         !abi::chunk::steps_may_exceed_one(shape);
}

// Those that groups of prepare stages serve besides, with care (sm90/factors/careful.cuh): unit
// keys in f16, or written at most twice, so that what cancels has f16's bits, or bf16's, left.
constexpr bool serves_with_care(const Shape& shape) {
  const bool bounded = shape.beta_is_logit || shape.beta_at_most_one;
  return shape.qkv_type != DType::f32 && !serves(shape) && bounded &&
         (shape.l2norm_qk || shape.qk_normalized) && (shape.key_dim == 64 || shape.key_dim == 128);
}

// Rows that come normalised are no longer than abi::chunk::most_key; nor shorter than leaves an f16
// its precision, and those of q, times the scale or not, likewise.
constexpr float least_key = 1.0F / 16;
constexpr float least_query = 1.0F / 64;
constexpr float most_query = 1024.0F;

// With care Kr has two terms, the second where Ak's rest will stand, or behind an image that has
// none.
constexpr int kr_rest(const Shape& shape) {
  const chunk::Image image = chunk::image(shape, factors::chunk);
  return chunk::writes_twice(shape) ? image.ak_rest : (image.bytes + 1023) / 1024 * 1024;
}

// A chunk's image (abi/chunk.h), in which k and q are loaded where Kd and Qd will stand; and g
// where Ak will, for the one group of a block that has one chunk.
constexpr int buffer_bytes(const Shape& shape, int groups) {
  const chunk::Image image = chunk::image(shape, factors::chunk);
  const int g = groups == 1 ? factors::chunk * shape.key_dim * bytes_of(shape.gate_type) : 0;
  int bytes = image.ak + g > image.bytes ? image.ak + g : image.bytes;
  if (serves_with_care(shape)) {
    const int end = kr_rest(shape) + factors::chunk * shape.key_dim * 2;
    bytes = end > bytes ? end : bytes;
  }
  return bytes;
}

// What the group works in, the larger of AnyGateScratch (sm90/factors) and Scratch (sm90/slabs),
// which assert that it is enough.  At K = 128 strategy fused has 40 bytes to spare.
constexpr int scratch_bytes(const Shape& shape) {
  return warps(shape) * 7168 + 160 + (serves_with_care(shape) ? 4096 : 0);
}

// q, k and g of a run, a warp's channels a slab, in boxes of a chunk's tokens; of teams, slabs of
// 64 channels in boxes of half a chunk's, but for a g of 32 bits, which these read themselves.
struct RawMaps {
  TensorMap q, k, g;
  bool present = false;  // whether their layouts can have them
};
constexpr int slabs_a_box(const Shape& shape) { return shape.key_dim == 128 ? 4 : 1; }

// Dynamic shared memory of a group.
constexpr int group_bytes(const Shape& shape, int groups) {
  return (buffer_bytes(shape, groups) + scratch_bytes(shape) + 1023) / 1024 * 1024;
}

// A team of two warps (sm90/teams): an image, and what they work in (its Scratch, which asserts
// that it is enough), of which all but the first 512 bytes begins where a swizzle pattern does.
constexpr int team_warps = 2;
constexpr int team_threads = 32 * team_warps;
constexpr int team_scratch_at(const Shape& shape) {
  return (chunk::image(shape, factors::chunk).bytes + 512 + 1023) / 1024 * 1024 - 512;
}
constexpr int team_scratch_bytes(const Shape& shape) {
  const int half = chunk / 2 * shape.key_dim * 2;
  constexpr int scores = 2 * 2560;
  return 512 + half + (2 * half > scores ? 2 * half : scores) + 1024;
}
constexpr int team_bytes(const Shape& shape) {
  return (team_scratch_at(shape) + team_scratch_bytes(shape) + 1023) / 1024 * 1024;
}

// Sequences of a pack over which groups can walk, but for those that walk in a mixed one.
constexpr int most_walked = 32;

// Groups a block can have, given its shared memory and a multiprocessor's registers: 16 warps leave
// each thread 128, too few where half of the threads have no gate.
constexpr int most_groups(const Shape& shape, int block_bytes) {
  const int fit = block_bytes / group_bytes(shape, 2);  // as of any that walk
  const int most = shape.key_dim == 64 ? 3 : 16 / warps(shape);
  return fit < most ? fit : most;
}

}  // namespace kda::abi::factors
