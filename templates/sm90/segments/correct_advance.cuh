// A step of the state over a segment, S_end = T S_begin + S_local.
#pragma once

#include "base/types.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/segments/correct_part.cuh"
#include "sm90/segments/correction.cuh"
#include "sm90/segments/transition_product.cuh"

namespace kda {

// Adds T S, over k steps first to end - 1 of S's channels.
template <int first, int end>
KDA_DEVICE void add_carried(float (&s)[keys / 8][4], const u32 (&a)[keys / 16][4],
                            const u32 (&rest)[keys / 16][4], u32 at) {
  chunk_wgmma::hold(s);
  ptx::wgmma_fence();
  segments::apply<keys, Image, first, end>(s, a, rest, at);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  chunk_wgmma::hold(s);
}

// The state before a segment becomes the one after it.
KDA_DEVICE void advance(float (&s)[keys / 8][4], u32 at, const Known& known) {
  u32 a[keys / 16][4];
  u32 rest[keys / 16][4];
  segments::split<keys>(a, rest, s);
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
  if (!known.alive) return;
  if (known.is_only(0)) {
    add_carried<0, 4>(s, a, rest, at);
  } else if (known.is_only(panels - 1)) {
    add_carried<keys / 16 - 4, keys / 16>(s, a, rest, at);
  } else {
    add_carried<0, keys / 16>(s, a, rest, at);
  }
}

}  // namespace kda
