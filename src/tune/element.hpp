// The element types on the host, as far as random inputs and their comparison need them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kda/kda.hpp"

namespace kda::tune {

constexpr std::size_t bytes_of(DType type) { return type == DType::f32 ? 4 : 2; }

// Rounds toward zero; an f16 below its normal numbers becomes zero.
inline void store(DType type, void* data, std::size_t index, float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  std::uint16_t half = static_cast<std::uint16_t>(bits >> 16);
  if (type == DType::f16) {
    const std::uint32_t exponent = (bits >> 23) & 0xffU;
    half = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    if (exponent > 112)
      half |= static_cast<std::uint16_t>(((bits >> 13) & 0x3ffffU) - (112U << 10));
  }
  auto* at = static_cast<std::byte*>(data) + index * bytes_of(type);
  if (type == DType::f32) {
    std::memcpy(at, &bits, sizeof bits);
  } else {
    std::memcpy(at, &half, sizeof half);
  }
}

inline float load(DType type, const void* data, std::size_t index) {
  const auto* at = static_cast<const std::byte*>(data) + index * bytes_of(type);
  std::uint32_t bits = 0;
  if (type == DType::f32) {
    std::memcpy(&bits, at, sizeof bits);
  } else {
    std::uint16_t half = 0;
    std::memcpy(&half, at, sizeof half);
    bits = std::uint32_t{half} << 16;
    if (type == DType::f16) {
      const int exponent = (half >> 10) & 0x1f;
      const float fraction = static_cast<float>(half & 0x3ff);
      float value = exponent == 31  ? (fraction == 0 ? HUGE_VALF : NAN)
                    : exponent == 0 ? std::ldexp(fraction, -24)
                                    : std::ldexp(1024 + fraction, exponent - 25);
      return (half & 0x8000U) != 0 ? -value : value;
    }
  }
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace kda::tune
