// What the templates of sm90/factors, sm90/slabs and sm90/teams are specialised on.
#pragma once

#include "abi/factors.h"
#include "abi/shape.h"
#include "base/element.cuh"
#include "tile/shared.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::factors::Tuning tune = KDA_TUNING;
constexpr abi::DType type = shape.qkv_type;
constexpr int keys = shape.key_dim;
constexpr int values = shape.value_dim;
constexpr int chunk = abi::factors::chunk;
constexpr abi::chunk::Image image = abi::chunk::image(shape, chunk);
// Bytes from a place in k or Kd to that in q or Qd (modulo 2^32), and in Kr or Ak.
constexpr u32 k_to_q = static_cast<u32>(image.qd) - image.kd;
constexpr u32 k_to_kr = image.ak - image.kd;

// Whether products have split operands (careful.cuh), and whether those of the scores do, too.
constexpr bool careful = abi::factors::serves_with_care(shape);
constexpr bool exact_scores = careful && type == abi::DType::f16;
static_assert(abi::factors::serves(shape) || careful,
              "16-bit rows of unit length are served, K a multiple of 64");

using Factor = tile::Shared<type, chunk, keys>;
using Square = tile::Shared<type, chunk, chunk>;
static_assert(image.aq == Factor::bytes && image.kd - image.aq == Square::bytes);

constexpr int warps = abi::factors::warps(shape);  // a group
constexpr int slab = abi::factors::slab(shape);
constexpr int k_steps = slab / 16;  // of its products
constexpr int pitch = slab + 8;     // floats a token of D, so that lanes meet every bank
constexpr int half_tokens = 16;

using F16 = element<abi::DType::f16>;
using Bf16 = element<abi::DType::bf16>;
using Element = element<type>;  // of q, k and the factors

// M diag(beta), of entries up to 1, and Kr, up to abi::chunk::most_key, lie in f16 times 2^14 and
// 2^15, so that neither a tiny beta nor what has decayed since is subnormal there.
// Of steps up to 2 the first has entries up to 11, as rows that come normalised may be longer than
// one.
constexpr int strength_bits = abi::chunk::steps_may_exceed_one(shape) ? 12 : 14;
constexpr int key_bits = 15;
constexpr float strength_scale = 1 << strength_bits;
constexpr float key_scale = 1 << key_bits;

// q k in f16, times a power of two that keeps those of short rows from getting subnormal, and what
// takes it back of Aq, two bf16: with it strength_scale, by which that comes, too.
struct ScoreSize {
  float up;
  u32 down;

  // Of q without the scale, which is of length one at the most, or comes normalised as it is.
  static constexpr KDA_DEVICE ScoreSize of_unscaled() {
    if constexpr (!shape.l2norm_qk) return {1.0F, both(127 - strength_bits)};
    return {static_cast<float>(1U << most_bits), both(127 - strength_bits - most_bits)};
  }

  // Of q times a scale of 2^-10 to 2^10: up to 2^15, as rows are of length one at the most.
  static KDA_DEVICE ScoreSize of_scaled(float scale) {
    if constexpr (!shape.l2norm_qk) return of_unscaled();
    const u32 exponent = __float_as_uint(scale) >> 23;
    return {__uint_as_float((127 + 127 + most_bits - exponent) << 23),
            both(exponent - strength_bits - most_bits)};
  }

 private:
  static constexpr u32 most_bits = 14;

  static constexpr KDA_DEVICE u32 both(u32 exponent) { return exponent << 7 | exponent << 23; }
};

// What makes up for the bits that tf32 operands lose: a sum of squares is so much too small, were
// they drawn at random.  Of k k, which the inverse adds up; those of pairs, which lose none, are as
// much too large, and q k as much too small.
// With care nothing is lost, or as much is added as is taken.
constexpr float whole_tf32 = careful ? 1.0F : 1 + 0x1.7p-11F;

}  // namespace kda
