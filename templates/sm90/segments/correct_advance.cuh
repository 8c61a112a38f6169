// A step of the state over a segment, S_end = T S_begin + S_local.  T and S enter their product as
// a bf16 and what it lost, three products for one, so that what it adds is of the order of 2^-17
// and not of the 2^-9 of a factor.
#pragma once

#include "base/element.cuh"
#include "base/types.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/segments/correction.cuh"

namespace kda {

// s[V, K] += (a + rest)[V, K] (T + rest)^T, but for the product of the rests; small terms first.
KDA_DEVICE void apply(float (&s)[keys / 8][4], const u32 (&a)[keys / 16][4],
                      const u32 (&rest)[keys / 16][4], u32 step) {
  const ptx::WgmmaTile t(step, 128, Image::panel_bytes, 1024);
  const ptx::WgmmaTile t_rest(step + Image::bytes, 128, Image::panel_bytes, 1024);
  using Product = ptx::wgmma_m64k16<abi::DType::bf16, keys, 1>;
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], rest[k], t.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], a[k], t_rest.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], a[k], t.at(k * 16 * 128), 1);
}

// S^T as bf16 operands, and what they lost.
KDA_DEVICE void split(u32 (&a)[keys / 16][4], u32 (&rest)[keys / 16][4],
                      const float (&s)[keys / 8][4]) {
  using Element = element<abi::DType::bf16>;
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = s[2 * k + i / 2] + i % 2 * 2;
      a[k][i] = Element::pack(pair[0], pair[1]);
      const float2 kept = Element::unpack(a[k][i]);
      rest[k][i] = Element::pack(pair[0] - kept.x, pair[1] - kept.y);
    }
  }
}

// The state before a segment becomes the one after it.
KDA_DEVICE void advance(float (&s)[keys / 8][4], u32 at, bool alive) {
  u32 a[keys / 16][4];
  u32 rest[keys / 16][4];
  split(a, rest, s);
  // What decayed to nothing is 0 times what it was, which keeps NaN and infinity.
  const u32 local = at + 2 * Image::bytes + threadIdx.x * 16;
#pragma unroll
  for (int k = 0; k < keys / 8; ++k) {
    const float4 x = ptx::ld_shared_f32x4(local + k * 128 * 16);
    s[k][0] = s[k][0] * 0.0F + x.x;
    s[k][1] = s[k][1] * 0.0F + x.y;
    s[k][2] = s[k][2] * 0.0F + x.z;
    s[k][3] = s[k][3] * 0.0F + x.w;
  }
  if (alive) {
    chunk_wgmma::hold(s);
    ptx::wgmma_fence();
    apply(s, a, rest, at);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    chunk_wgmma::hold(s);
  }
}

}  // namespace kda
