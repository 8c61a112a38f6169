// The products of a chain and what stands between them, on one warpgroup's registers.
#pragma once

#include "base/element.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "tile/operand.cuh"

namespace kda::chunk_wgmma {

template <int count>
KDA_DEVICE float largest(const float (&x)[count][4]) {
  float m = 0.0F;
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) m = fmaxf(m, fabsf(x[i][e]));
  }
  return m;
}

// Keeps the compiler from moving uses of x across this point: a wgmma may be writing it.
template <int count>
KDA_DEVICE void hold(float (&x)[count][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(x[i][e])::"memory");
  }
}

// A operands of x, 16 columns each, in the scale's form.
template <abi::DType type, int count>
KDA_DEVICE void pack(u32 (&a)[count / 2][4], const float (&x)[count][4],
                     const tile::Scale<type>& scale) {
#pragma unroll
  for (int k = 0; k < count / 2; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = x[2 * k + i / 2] + i % 2 * 2;
      const float up = scale.needed ? scale.up : 1.0F;
      a[k][i] = element<type>::pack(scale.needed ? pair[0] * up : pair[0],
                                    scale.needed ? pair[1] * up : pair[1]);
    }
  }
}

// acc[V, C] = A[V, K] factor[C, K]^T; onto: what is in acc, from which it is taken with sign -1.
template <class Chain, int sign = 1, bool onto = (sign < 0)>
KDA_DEVICE void read_state(typename Chain::Accumulators& acc, const u32 (&a)[Chain::keys / 16][4],
                           ptx::WgmmaPlace factor) {
  const ptx::WgmmaTile tile(factor, 128, 0, 1024);
#pragma unroll
  for (int k = 0; k < Chain::keys / 16; ++k) {
    ptx::wgmma_m64k16<Chain::type, Chain::chunk, 0, sign>::run(
        &acc[0][0], a[k], tile.at(k / 4 * Chain::Factor::panel_bytes + k % 4 * 32), k > 0 || onto);
  }
}

// s[V, K] += A[V, C] writer[C, K], 128 channels a product, or 64 where K leaves half of one empty.
template <class Chain>
KDA_DEVICE void write_state(float (&s)[Chain::keys / 8][4], const u32 (&a)[Chain::chunk / 16][4],
                            ptx::WgmmaPlace writer) {
  constexpr int width = Chain::keys % 128 == 0 ? 128 : 64;
  const ptx::WgmmaTile tile(writer, 128, Chain::Factor::panel_bytes, 1024);
#pragma unroll
  for (int part = 0; part < Chain::keys / width; ++part) {
#pragma unroll
    for (int c = 0; c < Chain::chunk / 16; ++c) {
      ptx::wgmma_m64k16<Chain::type, width, 1>::run(
          &s[part * width / 8][0], a[c],
          tile.at(part * width / 64 * Chain::Factor::panel_bytes + c * 16 * 128), 1);
    }
  }
}

// One chunk's decay of this lane's channels.
template <int count>
KDA_DEVICE void load_decay(float2 (&d)[count], u32 decay, const tile::Lane& lane = {}) {
#pragma unroll
  for (int k = 0; k < count; k += 2) {  // in the order of tile/decay.cuh
    const float4 x = ptx::ld_shared_f32x4(decay + (k * 8 + 4 * lane.t) * 4);
    d[k] = make_float2(x.x, x.y);
    d[k + 1] = make_float2(x.z, x.w);
  }
}

// s *= diag(decay)
template <int count>
KDA_DEVICE void decay_state(float (&s)[count][4], const float2 (&d)[count]) {
#pragma unroll
  for (int k = 0; k < count; ++k) {
    s[k][0] *= d[k].x;
    s[k][1] *= d[k].y;
    s[k][2] *= d[k].x;
    s[k][3] *= d[k].y;
  }
}

template <int count>
KDA_DEVICE void multiply(float (&x)[count][4], float factor) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) x[i][e] *= factor;
  }
}

// Bytes from a chunk's rows to this lane's place among them, of v read and o written transposed.
template <class Chain>
KDA_DEVICE u32 own_rows() {
  const u32 lane = threadIdx.x % 32;
  return Chain::Values::at(lane % 8 + lane / 16 * 8, threadIdx.x / 32 * 16 + lane / 8 % 2 * 8);
}

// v^T of a chunk, from this lane's place, as the accumulators lie, two columns a register.
template <class Chain>
KDA_DEVICE void load_values_transposed(u32 (&x)[Chain::chunk_tiles / 2][4], u32 own) {
#pragma unroll
  for (int c = 0; c < Chain::chunk_tiles; c += 2) {
    ptx::ldmatrix_x4_trans(x[c / 2], own + c * 8 * Chain::Values::row_bytes);
  }
}

// scale * acc^T as rows of tokens, in place of v: a warp's columns are those that it has read
// there.
template <class Chain>
KDA_DEVICE void leave_outputs(u32 own, const typename Chain::Accumulators& acc, float scale) {
#pragma unroll
  for (int c = 0; c < Chain::chunk_tiles; c += 2) {
    u32 x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = &acc[c + i / 2][i % 2 * 2];
      x[i] = element<Chain::type>::pack(scale * pair[0], scale * pair[1]);
    }
    ptx::stmatrix_x4_trans(own + c * 8 * Chain::Values::row_bytes, x);
  }
}

// r = v^T
template <class Chain>
KDA_DEVICE void take_values(typename Chain::Accumulators& r,
                            const u32 (&x)[Chain::chunk_tiles / 2][4]) {
#pragma unroll
  for (int c = 0; c < Chain::chunk_tiles; c += 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = element<Chain::type>::unpack(x[c / 2][i]);
      float* to = &r[c + i / 2][i % 2 * 2];
      to[0] = pair.x;
      to[1] = pair.y;
    }
  }
}

// r = v^T - r * down
template <class Chain>
KDA_DEVICE void subtract_from_values(typename Chain::Accumulators& r,
                                     const u32 (&x)[Chain::chunk_tiles / 2][4], float down) {
#pragma unroll
  for (int c = 0; c < Chain::chunk_tiles; c += 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = element<Chain::type>::unpack(x[c / 2][i]);
      float* to = &r[c + i / 2][i % 2 * 2];
      to[0] = pair.x - to[0] * down;
      to[1] = pair.y - to[1] * down;
    }
  }
}

}  // namespace kda::chunk_wgmma
