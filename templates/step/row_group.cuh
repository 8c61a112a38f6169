// One thread's part of a chunk: 8 consecutive rows (tokens) of channels c and c + 1, as f32.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/tensor.cuh"
#include "base/types.cuh"
#include "step/gate.cuh"

namespace kda::step {

struct RowGroup {
  float2 q[8], k[8];
  float2 a[8];  // decay of each token
};

KDA_DEVICE float2 times(float2 x, float2 y) { return make_float2(x.x * y.x, x.y * y.y); }
KDA_DEVICE float2 times(float2 x, float y) { return make_float2(x.x * y, x.y * y); }
KDA_DEVICE float2 reciprocal(float2 x) {
  return make_float2(reciprocal_approximate(x.x), reciprocal_approximate(x.y));
}

// Where the chunk's first token of one head lies in each tensor, in elements.
struct Origin {
  i64 q, k, g;
};

// Rows row0 .. row0 + 7 of `rows`: raw q and k, and g still raw in `a`.  Rows and channels that do
// not exist are read where others do, so that all loads are in flight together; settle() clears
// them. paired: channels come two at a time; else one by one, which serves any layout.
template <abi::Shape shape>
KDA_DEVICE void load_raw(RowGroup& part, const abi::Inputs& in, const Origin& origin, int row0,
                         int rows, int c, bool paired) {
  constexpr int keys = shape.key_dim;
  const int c0 = c < keys ? c : 0;
  const int c1 = c + 1 < keys ? c + 1 : 0;
  const int row = row0 < rows ? row0 : rows - 1;
  const auto* q =
      static_cast<const storage<shape.qkv_type>*>(in.q.data) + origin.q + row * in.q.token;
  const auto* k =
      static_cast<const storage<shape.qkv_type>*>(in.k.data) + origin.k + row * in.k.token;
  const auto* g =
      static_cast<const storage<shape.gate_type>*>(in.g.data) + origin.g + row * in.g.token;
  if (paired && row0 + 8 <= rows) {
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      part.q[r] = load_pair<shape.qkv_type>(q, c0);
      part.k[r] = load_pair<shape.qkv_type>(k, c0);
      part.a[r] = load_pair<shape.gate_type>(g, c0);
      q += in.q.token;
      k += in.k.token;
      g += in.g.token;
    }
  } else {
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      part.q[r] = make_float2(load<shape.qkv_type>(q, c0), load<shape.qkv_type>(q, c1));
      part.k[r] = make_float2(load<shape.qkv_type>(k, c0), load<shape.qkv_type>(k, c1));
      part.a[r] = make_float2(load<shape.gate_type>(g, c0), load<shape.gate_type>(g, c1));
      const bool more = row0 + r + 1 < rows;
      q += more ? in.q.token : 0;
      k += more ? in.k.token : 0;
      g += more ? in.g.token : 0;
    }
  }
}

// g to decays; what does not exist becomes q = k = 0 and decay 1.
template <abi::Shape shape>
KDA_DEVICE void settle(RowGroup& part, int row0, int rows, int c, float rate, float2 bias,
                       float lower_bound) {
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    part.a[r].x = decay<shape>(part.a[r].x, rate, bias.x, lower_bound);
    part.a[r].y = decay<shape>(part.a[r].y, rate, bias.y, lower_bound);
  }
  if (row0 + 8 <= rows && c + 1 < shape.key_dim) return;
  const bool first = c < shape.key_dim;
  const bool second = c + 1 < shape.key_dim;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const bool row = row0 + r < rows;
    if (!row || !first) part.q[r].x = part.k[r].x = 0.0F;
    if (!row || !second) part.q[r].y = part.k[r].y = 0.0F;
    if (!row || !first) part.a[r].x = 1.0F;
    if (!row || !second) part.a[r].y = 1.0F;
  }
}

}  // namespace kda::step
