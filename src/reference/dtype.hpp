// The element types on the host: bits to values and back, rounding to nearest even.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kda/kda.hpp"

namespace kda::reference {

constexpr std::size_t bytes_of(DType type) { return type == DType::f32 ? 4 : 2; }
constexpr std::size_t bytes_of(Index type) { return type == Index::i32 ? 4 : 8; }
const char* name_of(DType type) noexcept;

// Half the gap between 1 and the next value: the largest relative error of one rounding.
double unit_roundoff(DType type) noexcept;

inline float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float float_of_f16(std::uint16_t bits) noexcept;
std::uint16_t f16_of(float value) noexcept;

// The value that `type` would hold.  Branch-free for finite values, so that loops over it
// vectorise.
inline float round_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}
inline float round_f16(float value) {
  // Adding 1.5 * 2^(e + 13) leaves the 10 bits that an f16 of that exponent holds; below 2^-14 its
  // spacing stays 2^-24.
  const float magnitude = std::fabs(value);
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(magnitude) & 0x7f800000U;
  const std::uint32_t spacing = std::clamp(exponent, 0x38800000U, 0x47800000U);
  const float shift = std::bit_cast<float>(spacing + (13U << 23)) * 1.5F;
  const float rounded = (magnitude + shift) - shift;
  const float bounded = rounded < 65520.0F ? rounded : rounded * INFINITY;
  return std::copysign(bounded, value);
}
float round_to(DType type, float value) noexcept;

// Element `index` of an array of `type`.
double load(DType type, const void* data, std::size_t index) noexcept;
// Rounds through f32, as every kernel and framework does.
void store(DType type, void* data, std::size_t index, double value) noexcept;

}  // namespace kda::reference
