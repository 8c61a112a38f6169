// Warp-wide products C[16, 8] += A[16, 16] B[16, 8] of any element type, with one meaning of the
// registers: lane = 4 g + t holds of C the elements (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1).
//
// A C tile becomes an A operand without moving between lanes.  For 16-bit types the layouts agree.
// For f32 the k index of each 8 is renamed, slot t to column 2t and slot t+4 to column 2t+1, in A
// and B alike; a sum over k does not care.
//
// f32 operands are split in tf32 terms: splits = 3 keeps hi*hi + hi*lo + lo*hi, about 2^-21 off;
// splits = 4 keeps lo*lo too.  The instruction adds to its accumulator rounding toward zero, so
// long sums that must be exact to f32 go through multiply8 into fresh accumulators
// (step/scores.cuh). splits = 1 is plain tf32, for factors that are rounded further anyway: the
// instruction drops the low 13 bits, so values are to be rounded() before, best where they are
// stored.  lean: a value is split by three instructions for five, but ptxas then holds both terms
// from product to product, so it is for who has registers left.
#pragma once

#include "ptx/mma.cuh"
#include "tile/shared.cuh"

namespace kda::tile {

// Lane coordinates within a C tile.
struct Lane {
  int g;  // 0..7
  int t;  // 0..3
  KDA_DEVICE Lane() : Lane(threadIdx.x) {}
  KDA_DEVICE explicit Lane(u32 thread)
      : g(static_cast<int>(thread % 32 / 4)), t(static_cast<int>(thread % 4)) {}
};

template <abi::DType type, int splits = 3, bool lean = false>
struct Operand {  // bf16, f16
  struct A {
    u32 r[4];
  };
  struct B {
    u32 r[2];
  };

  // Where this lane reads tiles whose rows run along k (rows), or whose columns do (down).
  template <class Tile>
  static KDA_DEVICE Place<Tile> rows(const Tile& tile, int row, int column) {
    const u32 lane = threadIdx.x % 32;
    return tile.place(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8);
  }
  template <class Tile>
  static KDA_DEVICE Place<Tile> down(const Tile& tile, int row, int column) {
    const u32 lane = threadIdx.x % 32;
    return tile.place(row + lane % 16, column + lane / 16 * 8);
  }

  // B[k, n] = (n0 + n, k0 + k) from rows() for n0 and n0 + 8.
  template <class Tile>
  static KDA_DEVICE void load_b2(B* b, const Place<Tile>& place, int n0, int k0) {
    u32 r[4];
    ptx::ldmatrix_x4(r, place.at(n0, k0));
    b[0] = {r[0], r[1]};
    b[1] = {r[2], r[3]};
  }
  // B[k, n] = (k0 + k, n0 + n) from down(), likewise.
  template <class Tile>
  static KDA_DEVICE void load_b2_down(B (&b)[2], const Place<Tile>& place, int k0, int n0) {
    u32 r[4];
    ptx::ldmatrix_x4_trans(r, place.at(k0, n0));
    b[0] = {r[0], r[1]};
    b[1] = {r[2], r[3]};
  }
  // A from two neighbouring C tiles (columns 0..7 and 8..15).
  static KDA_DEVICE A from_c(const float (&lo)[4], const float (&hi)[4]) {
    return {element<type>::pack(lo[0], lo[1]), element<type>::pack(lo[2], lo[3]),
            element<type>::pack(hi[0], hi[1]), element<type>::pack(hi[2], hi[3])};
  }
  static KDA_DEVICE void multiply(float (&c)[4], const A& a, const B& b) {
    if constexpr (type == abi::DType::bf16) {
      ptx::mma_m16n8k16_bf16(c, a.r, b.r);
    } else {
      ptx::mma_m16n8k16_f16(c, a.r, b.r);
    }
  }
};

template <int splits, bool lean>
struct Operand<abi::DType::f32, splits, lean> {
  static_assert(splits == 1 || splits == 3 || splits == 4);

  // x such that dropping its low 13 bits rounds to nearest; x itself where it will be split.
  static KDA_DEVICE float rounded(float x) {
    return splits == 1 ? __uint_as_float(__float_as_uint(x) + 0x1000U) : x;
  }
  static KDA_DEVICE float2 rounded(float2 x) { return make_float2(rounded(x.x), rounded(x.y)); }

  template <int count>
  struct Split {
    u32 hi[count];
    u32 lo[splits == 1 ? 1 : count];
    KDA_DEVICE void set(int i, float x) {
      if constexpr (splits != 1) {
        // The NaN of all bits becomes a zero, but then lo is NaN.
        hi[i] = lean ? (__float_as_uint(x) + 0x1000U) & 0xffffe000U : ptx::cvt_rna_tf32(x);
        lo[i] = __float_as_uint(x - __uint_as_float(hi[i]));
      } else {
        hi[i] = __float_as_uint(x);
      }
    }
    // For values that were not rounded when they were stored.
    KDA_DEVICE void round() {
      if constexpr (splits == 1) {
#pragma unroll
        for (int i = 0; i < count; ++i) hi[i] = __float_as_uint(rounded(__uint_as_float(hi[i])));
      }
    }
  };
  using A = Split<8>;  // [k / 8][g 2t, g+8 2t, g 2t+1, g+8 2t+1]
  using B = Split<4>;  // [k / 8][2t, 2t+1]

  template <class Tile>
  static KDA_DEVICE Place<Tile> rows(const Tile& tile, int row, int column) {
    const Lane lane;
    return tile.place(row + lane.g, column + 2 * lane.t);
  }
  template <class Tile>
  static KDA_DEVICE Place<Tile> down(const Tile& tile, int row, int column) {
    const Lane lane;
    return tile.place(row + 2 * lane.t, column + lane.g);
  }

  // Two rows of a down() place lie one below the other.
  template <class Tile>
  static KDA_DEVICE float below(const Place<Tile>& place, int row, int column, int more) {
    return ptx::ld_shared_f32(place.at(row, column) + more * Tile::row_bytes);
  }

  // A[m, k] = (m0 + m, k0 + k) from rows()
  template <class Tile>
  static KDA_DEVICE void load_a(A& a, const Place<Tile>& place, int m0, int k0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 x = ptx::ld_shared_f32x2(place.at(m0 + i % 2 * 8, k0 + i / 2 * 8));
      a.set(i / 2 * 4 + i % 2, x.x);
      a.set(i / 2 * 4 + i % 2 + 2, x.y);
    }
  }
  // A[m, k] = (k0 + k, m0 + m) from down()
  template <class Tile>
  static KDA_DEVICE void load_a_down(A& a, const Place<Tile>& place, int k0, int m0) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      a.set(i, below(place, k0 + i / 4 * 8, m0 + i % 2 * 8, i % 4 / 2));
    }
  }
  template <class Tile>
  static KDA_DEVICE void load_b(B& b, const Place<Tile>& place, int n0, int k0) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 x = ptx::ld_shared_f32x2(place.at(n0, k0 + i * 8));
      b.set(i * 2, x.x);
      b.set(i * 2 + 1, x.y);
    }
  }
  template <class Tile>
  static KDA_DEVICE void load_b_down(B& b, const Place<Tile>& place, int k0, int n0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) b.set(i, below(place, k0 + i / 2 * 8, n0, i % 2));
  }
  template <class Tile>
  static KDA_DEVICE void load_b2(B* b, const Place<Tile>& place, int n0, int k0) {
    load_b(b[0], place, n0, k0);
    load_b(b[1], place, n0 + 8, k0);
  }
  template <class Tile>
  static KDA_DEVICE void load_b2_down(B (&b)[2], const Place<Tile>& place, int k0, int n0) {
    load_b_down(b[0], place, k0, n0);
    load_b_down(b[1], place, k0, n0 + 8);
  }
  static KDA_DEVICE A from_c(const float (&lo)[4], const float (&hi)[4]) {
    A a;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a.set(i, lo[i % 2 * 2 + i / 2]);
      a.set(4 + i, hi[i % 2 * 2 + i / 2]);
    }
    return a;
  }
  // The half of k that starts at 8 * half.
  static KDA_DEVICE void multiply8(float (&c)[4], const A& a, const B& b, int half) {
    // The small terms first.
    if constexpr (splits == 4) ptx::mma_m16n8k8_tf32(c, a.lo + 4 * half, b.lo + 2 * half);
    if constexpr (splits != 1) {
      ptx::mma_m16n8k8_tf32(c, a.lo + 4 * half, b.hi + 2 * half);
      ptx::mma_m16n8k8_tf32(c, a.hi + 4 * half, b.lo + 2 * half);
    }
    ptx::mma_m16n8k8_tf32(c, a.hi + 4 * half, b.hi + 2 * half);
  }
  static KDA_DEVICE void multiply(float (&c)[4], const A& a, const B& b) {
    multiply8(c, a, b, 0);
    multiply8(c, a, b, 1);
  }
};

}  // namespace kda::tile
