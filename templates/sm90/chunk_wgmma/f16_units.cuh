// f16 operands of a chain.  A warp's S lies in registers times a power of two by which its operands
// are in f16's range, and stays so as long as they are: R and O come in the same units, and the
// update of S, too, as Ak and Aq are stored times writer_scale and R's operands come over it.
#pragma once

#include "ptx/max_abs_f16x2.cuh"
#include "sm90/chunk_wgmma/products.cuh"

namespace kda::chunk_wgmma {

// Whether the largest of a warp's f16 operands lies in [2^least, 2^14).  Of nothing but NaN it
// does not.
template <int least, int count>
KDA_DEVICE bool in_f16_range(const u32 (&a)[count][4]) {
  u32 m[4] = {a[0][0], a[0][1], a[0][2], a[0][3]};
#pragma unroll
  for (int k = 1; k < count; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) m[i] = ptx::max_abs_f16x2(m[i], a[k][i]);
  }
  u32 both = ptx::max_abs_f16x2(ptx::max_abs_f16x2(m[0], m[1]), ptx::max_abs_f16x2(m[2], m[3]));
  both = both & 0x7fff7fffU;
  const u32 largest = (both >> 16) > (both & 0xffffU) ? both >> 16 : both & 0xffffU;
  const bool enough = __any_sync(0xffffffffU, largest >= (15U + least) << 10);
  const bool too_large = __any_sync(0xffffffffU, largest >= (15U + 14U) << 10);
  return enough && !too_large;
}

struct F16Units {
  using Scale = tile::Scale<abi::DType::f16>;
  float up = 1.0F;  // S lies times this power of two

  // And comes back by this.
  KDA_DEVICE float down() const { return __uint_as_float((254U << 23) - __float_as_uint(up)); }

  // Operands of S, in other units where they would be out of range.
  template <int count>
  KDA_DEVICE void pack_state(u32 (&a)[count / 2][4], float (&s)[count][4]) {
    pack(a, s, Scale());
    if (in_f16_range<4>(a)) return;
    const int exponent = exponent_of(s);
    if (exponent == nothing) {  // or faded within a chunk to less than f32 has in its units
      multiply(s, down());
      up = 1.0F;
      return;
    }
    // Both the state and v stay finite by what is in [2^-120, 2^64], and so does a step.
    const int now = static_cast<int>(__float_as_uint(up) >> 23) - 127;
    const int most = smaller(64, now + 127);
    const int bits = larger(-120, smaller(most, now + 9 - exponent));
    multiply(s, power_of_two(bits - now));
    up = power_of_two(bits);
    pack(a, s, Scale());
  }

  // Operands of R over writer_scale.  False: they would be out of range.
  template <int count>
  static KDA_DEVICE bool pack_writes(u32 (&a)[count / 2][4], const float (&r)[count][4],
                                     float writer_scale) {
    pack(a, r, Scale{1.0F / writer_scale, writer_scale});
    return in_f16_range<-7>(a);
  }

  // Units of R's own: 2^80 times the state's at the most, by which S and O stay finite.
  template <int count>
  static KDA_DEVICE Scale own_units(const float (&r)[count][4]) {
    const int exponent = exponent_of(r);
    const int bits = exponent == nothing ? 0 : smaller(80, 8 - exponent);
    return {power_of_two(bits), power_of_two(-bits)};
  }

 private:
  static constexpr int nothing = -127;

  // Of the warp's largest that is finite: what is not spoils no column but its own.
  template <int count>
  static KDA_DEVICE int exponent_of(const float (&x)[count][4]) {
    float most = 0.0F;
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float m = fabsf(x[i][e]);
        if (m <= 0x1.fffffep127F) most = fmaxf(most, m);
      }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, step));
    }
    return static_cast<int>(__float_as_uint(most) >> 23) - 127;
  }
  static KDA_DEVICE float power_of_two(int bits) {
    return __uint_as_float(static_cast<u32>(bits + 127) << 23);
  }
};

}  // namespace kda::chunk_wgmma
