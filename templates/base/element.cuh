// element<DType>: what lies in memory, to and from f32.
#pragma once

#include "abi/dtype.h"
#include "base/types.cuh"

namespace kda {

template <abi::DType type>
struct element;

template <>
struct element<abi::DType::f32> {
  using storage = float;
  using pair = float2;
  static KDA_DEVICE float to_float(storage x) { return x; }
  static KDA_DEVICE storage from_float(float x) { return x; }
  static KDA_DEVICE float2 unpack(pair x) { return x; }
  static KDA_DEVICE pair pack(float lo, float hi) { return make_float2(lo, hi); }
  static KDA_DEVICE pair join(storage lo, storage hi) { return make_float2(lo, hi); }
};

template <>
struct element<abi::DType::bf16> {
  using storage = u16;
  using pair = u32;
  static KDA_DEVICE float to_float(storage x) { return __uint_as_float(static_cast<u32>(x) << 16); }
  static KDA_DEVICE storage from_float(float x) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
  }
  static KDA_DEVICE float2 unpack(pair x) {
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000U));
  }
  static KDA_DEVICE pair pack(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static KDA_DEVICE pair join(storage lo, storage hi) { return lo | static_cast<u32>(hi) << 16; }
};

template <>
struct element<abi::DType::f16> {
  using storage = u16;
  using pair = u32;
  static KDA_DEVICE float to_float(storage x) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
  }
  static KDA_DEVICE storage from_float(float x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
  }
  static KDA_DEVICE float2 unpack(pair x) {
    return make_float2(to_float(static_cast<u16>(x)), to_float(static_cast<u16>(x >> 16)));
  }
  static KDA_DEVICE pair pack(float lo, float hi) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static KDA_DEVICE pair join(storage lo, storage hi) { return lo | static_cast<u32>(hi) << 16; }
};

template <abi::DType type>
using storage = typename element<type>::storage;

template <abi::DType type>
KDA_DEVICE float load(const void* data, i64 index) {
  return element<type>::to_float(static_cast<const storage<type>*>(data)[index]);
}

template <abi::DType type>
KDA_DEVICE void store(void* data, i64 index, float value) {
  static_cast<storage<type>*>(data)[index] = element<type>::from_float(value);
}

// Elements index and index + 1; both must lie on one pair's alignment.
template <abi::DType type>
KDA_DEVICE float2 load_pair(const void* data, i64 index) {
  const auto* at = static_cast<const storage<type>*>(data) + index;
  return element<type>::unpack(*reinterpret_cast<const typename element<type>::pair*>(at));
}

template <abi::DType type>
KDA_DEVICE void store_pair(void* data, i64 index, float lo, float hi) {
  auto* at = static_cast<storage<type>*>(data) + index;
  *reinterpret_cast<typename element<type>::pair*>(at) = element<type>::pack(lo, hi);
}

// 16 bytes of memory to and from the elements they hold.
template <abi::DType type>
KDA_DEVICE uint4 join_unit(const storage<type> (&x)[16 / abi::bytes_of(type)]) {
  if constexpr (sizeof(storage<type>) == 4) {
    return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
                      __float_as_uint(x[3]));
  } else {
    return make_uint4(element<type>::join(x[0], x[1]), element<type>::join(x[2], x[3]),
                      element<type>::join(x[4], x[5]), element<type>::join(x[6], x[7]));
  }
}

template <abi::DType type>
KDA_DEVICE void unpack_unit(float (&x)[16 / abi::bytes_of(type)], uint4 unit) {
  const u32 words[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(storage<type>) == 4) {
      x[i] = __uint_as_float(words[i]);
    } else {
      const float2 two = element<type>::unpack(words[i]);
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    }
  }
}

}  // namespace kda
