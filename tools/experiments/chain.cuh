// One step of the recurrence's chain in each order that chain.cu compares.
#pragma once

#include "chain_parts.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma.cuh"
#include "tile/operand.cuh"

namespace kda {

template <class d>
struct Chain {
  using L = Layout<d>;
  static constexpr int tiles = d::chunk / 8;
  static constexpr bool outputs = d::early >= 0;
  using State = float[keys / 8][4];
  using Rows = float[tiles][4];  // [V, C]
  using StateOperand = u32[keys / 16][4];
  using RowsOperand = u32[d::chunk / 16][4];

  u32 shared;

  KDA_DEVICE u32 slot(int c) const { return shared + (c & 1) * L::slot; }

  // Where this lane's rows of v and o begin: row = token, 16 V columns a warp.
  KDA_DEVICE u32 lane_row() const {
    const int lane = threadIdx.x % 32;
    return (lane % 8 + lane / 16 * 8) * L::value_row +
           (static_cast<int>(threadIdx.x) / 32 * 16 + lane / 8 % 2 * 8) * 2;
  }

  KDA_DEVICE void wait_for_slot() const { ptx::mbarrier_wait(shared + L::bytes - 16, 1); }

  KDA_DEVICE void decay(State& s, int c) const {
    const tile::Lane lane;
#pragma unroll
    for (int k = 0; k < keys / 8; ++k) {
      const float2 x = ptx::ld_shared_f32x2(slot(c) + L::decay + (k * 8 + 2 * lane.t) * 4);
      s[k][0] *= x.x;
      s[k][1] *= x.y;
      s[k][2] *= x.x;
      s[k][3] *= x.y;
    }
  }

  // The first tiles of r = v^T, or r += v^T
  template <bool add, int count>
  KDA_DEVICE void values(float (&r)[count][4], int c) const {
    const u32 from = slot(c) + L::v + lane_row();
#pragma unroll
    for (int j = 0; j < tiles; j += 2) {
      u32 x[4];
      ptx::ldmatrix_x4_trans(x, from + j * 8 * L::value_row);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = element<type>::unpack(x[i]);
        float* to = &r[j + i / 2][i % 2 * 2];
        to[0] = add ? to[0] + pair.x : pair.x;
        to[1] = add ? to[1] + pair.y : pair.y;
      }
    }
  }

  KDA_DEVICE void store(const Rows& o) const {
    const u32 to = shared + L::o + lane_row();
#pragma unroll
    for (int j = 0; j < tiles; j += 2) {
      stmatrix_x4_trans(to + j * 8 * L::value_row, element<type>::pack(o[j][0], o[j][1]),
                        element<type>::pack(o[j][2], o[j][3]),
                        element<type>::pack(o[j + 1][0], o[j + 1][1]),
                        element<type>::pack(o[j + 1][2], o[j + 1][3]));
    }
  }

  // acc (+)= S factor^T over k-steps [first, last)
  KDA_DEVICE static void read_state(Rows& acc, const StateOperand& a, u32 factor, int first,
                                    int last, int accumulate) {
    const ptx::WgmmaTile tile(factor, 128, 0, 1024);
#pragma unroll
    for (int k = 0; k < keys / 16; ++k) {
      if (k < first || k >= last) continue;
      ptx::wgmma_m64k16<type, d::chunk, 0>::run(
          &acc[0][0], a[k], tile.at(k / 4 * L::Factor::panel_bytes + k % 4 * 32),
          accumulate || k > 0);
    }
  }

  // [R | O1] = S [Kd; Qd]^T
  KDA_DEVICE static void read_pair(float (&acc)[2 * tiles][4], const StateOperand& a, u32 pair,
                                   int accumulate) {
    const ptx::WgmmaTile tile(pair, 128, 0, 1024);
#pragma unroll
    for (int k = 0; k < keys / 16; ++k) {
      ptx::wgmma_m64k16<type, 2 * d::chunk, 0>::run(
          &acc[0][0], a[k], tile.at(k / 4 * L::Pair::panel_bytes + k % 4 * 32),
          accumulate || k > 0);
    }
  }

  KDA_DEVICE static void write_state(State& s, const RowsOperand& a, u32 factor) {
    const ptx::WgmmaTile tile(factor, 128, L::Factor::panel_bytes, 1024);
#pragma unroll
    for (int c = 0; c < d::chunk / 16; ++c) {
      ptx::wgmma_m64k16<type, keys, 1>::run(&s[0][0], a[c], tile.at(c * 16 * 128), 1);
    }
  }

  // acc (+)= R square^T
  KDA_DEVICE static void read_rows(Rows& acc, const RowsOperand& a, u32 square,
                                   int accumulate = 1) {
    const ptx::WgmmaTile tile(square, L::Square::row_bytes, 0, 8 * L::Square::row_bytes);
#pragma unroll
    for (int c = 0; c < d::chunk / 16; ++c) {
      ptx::wgmma_m64k16<type, d::chunk, 0>::run(&acc[0][0], a[c], tile.at(c * 32),
                                                accumulate || c > 0);
    }
  }

  struct Registers {
    State s;
    Rows r, o;
    float ro[2][2 * tiles][4];  // joint
    StateOperand s_operand[2];
    RowsOperand r_operand[2];
  };

  // b: the parity of c, known when compiled.
  template <int b>
  KDA_DEVICE void tight_or_loose(Registers& x, int c) const {
    constexpr bool loose = d::order == Order::loose;
    auto& s = x.s;
    wait_for_slot();
    pack(x.s_operand[b], s);
    if (d::decay == Decay::before) decay(s, c);
    if (d::preload) values<false>(x.r, c);
    hold(x.r);
    ptx::wgmma_fence();
    read_state(x.r, x.s_operand[b], slot(c) + L::kd, 0, 8, d::preload);
    ptx::wgmma_commit();
    if (d::decay != Decay::before) decay(s, c);
    if constexpr (outputs) {
      if (loose) {
        ptx::wgmma_wait<1>();  // O of the step before
        hold(x.o);
        store(x.o);
        hold(x.o);
        ptx::wgmma_fence();
      }
      if (!loose || d::early > 0) {
        read_state(x.o, x.s_operand[b], slot(c) + L::qd, 0, loose ? d::early : 8, 0);
        ptx::wgmma_commit();
      }
    }
    ptx::wgmma_wait<(outputs && (!loose || d::early > 0)) ? 1 : 0>();
    hold(x.r);
    if (!d::preload) values<true>(x.r, c);
    pack(x.r_operand[b], x.r);
    hold(s);
    ptx::wgmma_fence();
    write_state(s, x.r_operand[b], slot(c) + L::ak);
    ptx::wgmma_commit();
    if constexpr (outputs) {
      if (loose) read_state(x.o, x.s_operand[b], slot(c) + L::qd, d::early, 8, d::early > 0);
      read_rows(x.o, x.r_operand[b], slot(c) + L::aq);
      ptx::wgmma_commit();
    }
    ptx::wgmma_wait<outputs ? 1 : 0>();
    hold(s);
    if (outputs && !loose) {
      ptx::wgmma_wait<0>();
      hold(x.o);
      store(x.o);
    }
  }

  template <int b>
  KDA_DEVICE void ahead(Registers& x, int c) const {
    auto& s = x.s;
    wait_for_slot();
    // S of this chunk is here and R of this chunk in flight behind it.
    pack(x.s_operand[b], s);
    decay(s, c);
    ptx::wgmma_wait<outputs ? 1 : 0>();
    hold(x.r);
    pack(x.r_operand[b], x.r);
    values<false>(x.r, c + 1);
    hold(s);
    hold(x.r);
    ptx::wgmma_fence();
    write_state(s, x.r_operand[b], slot(c) + L::ak);
    ptx::wgmma_commit();
    read_state(x.r, x.s_operand[b], slot(c + 1) + L::kd, 0, 8, 1);
    read_rows(x.r, x.r_operand[b], slot(c + 1) + L::aq);
    ptx::wgmma_commit();
    if constexpr (outputs) {
      ptx::wgmma_wait<2>();  // O of the step before
      hold(x.o);
      store(x.o);
      hold(x.o);
      ptx::wgmma_fence();
      read_state(x.o, x.s_operand[b], slot(c) + L::qd, 0, 8, 0);
      read_rows(x.o, x.r_operand[b], slot(c) + L::aq);
      ptx::wgmma_commit();
    }
    ptx::wgmma_wait<outputs ? 2 : 1>();
    hold(s);
  }

  template <int b>
  KDA_DEVICE void joint(Registers& x, int c) const {
    auto& s = x.s;
    auto& ro = x.ro[b];
    wait_for_slot();
    pack(x.s_operand[0], s);
    if (d::decay == Decay::before) decay(s, c);
    if (d::preload) {
      values<false>(ro, c);
#pragma unroll
      for (int i = tiles; i < 2 * tiles; ++i) ro[i][0] = ro[i][1] = ro[i][2] = ro[i][3] = 0.0F;
    }
    hold(ro);
    ptx::wgmma_fence();
    read_pair(ro, x.s_operand[0], slot(c) + L::kd, d::preload);
    ptx::wgmma_commit();
    if (d::decay != Decay::before) decay(s, c);
    // O of the step before, in two parts: ptxas serialises products into half of another's
    // accumulators (its note C7511).
    ptx::wgmma_wait<1>();
    hold(x.o);
    Rows o;
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) o[i][e] = x.o[i][e] + x.ro[1 - b][tiles + i][e];
    }
    store(o);
    hold(x.o);
    ptx::wgmma_wait<0>();
    hold(ro);
    if (d::preload) {
      pack(x.r_operand[b], ro);
    } else {
      values<false>(x.r, c);
#pragma unroll
      for (int i = 0; i < tiles; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) x.r[i][e] += ro[i][e];
      }
      pack(x.r_operand[b], x.r);
    }
    hold(s);
    ptx::wgmma_fence();
    write_state(s, x.r_operand[b], slot(c) + L::ak);
    ptx::wgmma_commit();
    read_rows(x.o, x.r_operand[b], slot(c) + L::aq, 0);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    hold(s);
  }

  template <int b>
  KDA_DEVICE void step(Registers& x, int c) const {
    if constexpr (d::order == Order::ahead) {
      ahead<b>(x, c);
    } else if constexpr (d::order == Order::joint) {
      joint<b>(x, c);
    } else {
      tight_or_loose<b>(x, c);
    }
  }
};

}  // namespace kda
