// What is lost where the walk gave T up before it was nothing (abi::segments::GivenUp).
#pragma once

#include "abi/segments.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/segments/correct_part.cuh"
#include "sm90/segments/correction.cuh"
#include "sm90/segments/looks.cuh"

namespace kda {

// Whether of this lane's two V columns, and its key channels, T of a panel's channels makes little
// of S beside what S_local had at a look.  t: T^T's image; noted: of S_local then.
template <int panel>
KDA_DEVICE bool may_be_lost(const float (&s)[keys / 8][4], u32 t, const float* noted) {
  const ptx::WgmmaTile image(t, 128, Image::panel_bytes, 1024);
  float lost[keys / 8][4] = {};
  u32 operand[4][4];
  chunk_wgmma::hold(lost);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int at = panel * 4 + k;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = s[2 * at + i / 2] + i % 2 * 2;
      operand[k][i] = element<abi::DType::bf16>::pack(pair[0], pair[1]);
    }
    ptx::wgmma_m64k16<abi::DType::bf16, keys, 1>::run(&lost[0][0], operand[k],
                                                      image.at(at * 16 * 128), 1);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  chunk_wgmma::hold(lost);
  constexpr float most = abi::segments::most_lost * abi::segments::most_lost;
  const int thread = static_cast<int>(threadIdx.x);
  const auto absolute = [](float x) { return fabsf(x); };
  const RowSums squares(lost, square);
  const RowSums sizes(s, absolute, panel * 8, panel * 8 + 8);
  bool may = !has_seen_channel(lost, noted, thread);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float length = __ldcg(noted + column_noted(thread) + i * 8);
    const bool is_little = says_something(length) && squares.of[i] <= most * length;
    may &= is_little || sizes.of[i] == 0.0F;
  }
  return may;
}

// Says so where too much is lost of a segment's T, of which S is the state before it.
KDA_DEVICE void look_at_lost(const Ring& ring, Step& step, const abi::segments::Args& args,
                             const Part& part, int index, const float (&s)[keys / 8][4]) {
  const Looks looks(args, part, index);
  if (!looks.exist()) return;
  const i64 tile = part.head_slot(args, index) * Tiles::count + part.tile;
  ring.wait_full(step);
  bool may = true;
  if (looks.at[0] >= 0) {
    may &= may_be_lost<0>(s, ring.at(step), noted_at<shape>(args, tile, looks.at[0]));
  }
  if constexpr (panels > 1) {
    if (looks.at[1] >= 0) {
      may &= may_be_lost<1>(s, ring.at(step), noted_at<shape>(args, tile, looks.at[1]));
    }
  }
  ring.release(step);
  step.next();
  if (!may) *args.given_up.unsure = 1;
}

}  // namespace kda
