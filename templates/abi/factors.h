// One chunk's folded factors as sm90/factors makes them in shared memory, by a group of 4 warps.
#pragma once

#include "abi/chunk.h"
#include "abi/shape.h"

namespace kda::abi::factors {

constexpr int chunk = 32;     // tokens
constexpr int threads = 128;  // a group

struct Tuning {
  int groups = 1;        // a block, each with chunks of its own
  int short_tokens = 1;  // as of chunk::PrepareTuning
};

// Problems that it serves: unit keys written at most once, so that its 16-bit operands are in
// range.
constexpr bool serves(const Shape& shape) {
  return shape.qkv_type == DType::bf16 && (shape.key_dim == 64 || shape.key_dim == 128) &&
         shape.l2norm_qk && !abi::chunk::beta_may_exceed_one(shape);
}

// A chunk's image (abi/chunk.h), in which k, q and g are loaded where Kd, Qd and Ak will stand.
constexpr int buffer_bytes(const Shape& shape) {
  const chunk::Image image = chunk::image(shape, factors::chunk);
  const int g = factors::chunk * shape.key_dim * bytes_of(shape.gate_type);
  return image.ak + g > image.bytes ? image.ak + g : image.bytes;
}

// What the group works in: Scratch of sm90/factors/group.cuh.
constexpr int scratch_bytes = 4 * 5120 + 4096 + 4096 + 128;

// Dynamic shared memory of a group.
constexpr int group_bytes(const Shape& shape) {
  return (buffer_bytes(shape) + scratch_bytes + 1023) / 1024 * 1024;
}

// Groups a block can have, given a block's shared memory and a multiprocessor's registers: of four,
// each thread has 128, too few for 64 channels of f32 gates.
constexpr int most_groups(const Shape& shape, int block_bytes) {
  const int fit = block_bytes / group_bytes(shape);
  const int most = shape.key_dim == 64 && shape.gate_type == DType::f32 ? 3 : 4;
  return fit < most ? fit : most;
}

}  // namespace kda::abi::factors
