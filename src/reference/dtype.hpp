// The element types on the host: bits to values and back, rounding to nearest even.
#pragma once

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
  // Selections by mask: GCC turns conditional expressions into branches here.
  const auto below = [](std::uint32_t a, std::uint32_t b) {  // a < b, both under 2^31: ~0 or 0
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(a - b) >> 31);
  };
  const auto select = [](std::uint32_t mask, std::uint32_t a, std::uint32_t b) {
    return (a & mask) | (b & ~mask);
  };
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Below 2^-14 the spacing stays 2^-24, which is that of f32 at 0.5.
  const float small = (std::bit_cast<float>(magnitude) + 0.5F) - 0.5F;
  const std::uint32_t rounded = (magnitude + 0xfffU + ((magnitude >> 13) & 1U)) & 0x7fffe000U;
  const std::uint32_t bounded = select(below(0x477fffffU, rounded), 0x7f800000U, rounded);
  const std::uint32_t large = select(below(0x7f800000U, magnitude), magnitude, bounded);  // NaN
  const std::uint32_t result =
      select(below(magnitude, 0x38800000U), std::bit_cast<std::uint32_t>(small), large);
  return std::bit_cast<float>(result | (bits & 0x80000000U));
}
float round_to(DType type, float value) noexcept;

// Element `index` of an array of `type`.
double load(DType type, const void* data, std::size_t index) noexcept;
// Rounds through f32, as every kernel and framework does.
void store(DType type, void* data, std::size_t index, double value) noexcept;

}  // namespace kda::reference
