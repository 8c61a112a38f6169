// T times a state of 64 V columns.  Both enter the product as a bf16 and what it lost, three
// products for one, so that what it adds is of the order of 2^-17 and not of the 2^-9 of a factor.
#pragma once

#include "base/element.cuh"
#include "base/types.cuh"
#include "ptx/wgmma.cuh"

namespace kda::segments {

// s[V, K] += (a + rest)[V, K] (T + rest)^T, but for the product of the rests; small terms first.
// at: shared address of T^T's image and, behind it, that of its rest.  Of T's columns, and of S's
// channels, those of k steps first to end - 1.
template <int keys, class Image, int first = 0, int end = keys / 16>
KDA_DEVICE void apply(float (&s)[keys / 8][4], const u32 (&a)[keys / 16][4],
                      const u32 (&rest)[keys / 16][4], u32 at) {
  const ptx::WgmmaTile t(at, 128, Image::panel_bytes, 1024);
  const ptx::WgmmaTile t_rest(at + Image::bytes, 128, Image::panel_bytes, 1024);
  using Product = ptx::wgmma_m64k16<abi::DType::bf16, keys, 1>;
#pragma unroll
  for (int k = first; k < end; ++k) Product::run(&s[0][0], rest[k], t.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = first; k < end; ++k) Product::run(&s[0][0], a[k], t_rest.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = first; k < end; ++k) Product::run(&s[0][0], a[k], t.at(k * 16 * 128), 1);
}

// S^T as bf16 operands, and what they lost.
template <int keys>
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

}  // namespace kda::segments
