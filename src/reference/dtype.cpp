#include "reference/dtype.hpp"

#include <cstring>

namespace kda::reference {

const char* name_of(DType type) noexcept {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
  }
  return "?";
}

double unit_roundoff(DType type) noexcept {
  switch (type) {
    case DType::f32:
      return 0x1p-24;
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
  }
  return 1;
}

float float_of_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  return std::copysign(static_cast<float>(mantissa) * 0x1p-24F, std::bit_cast<float>(sign | 1U));
}

std::uint16_t f16_of(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  if ((bits & 0x7fffffffU) > 0x7f800000U)  // NaN stays NaN
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((bits >> 13) & 0x1ffU));
  const auto rounded = std::bit_cast<std::uint32_t>(std::fabs(round_f16(value)));
  if (rounded == 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (rounded < 0x38800000U) {  // subnormal: a whole number of 2^-24
    const float units = std::bit_cast<float>(rounded) * 0x1p24F;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(units));
  }
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

float round_to(DType type, float value) noexcept {
  switch (type) {
    case DType::f32:
      return value;
    case DType::bf16:
      return float_of_bf16(bf16_of(value));
    case DType::f16:
      return float_of_f16(f16_of(value));
  }
  return value;
}

namespace {

template <class Bits>
Bits bits_at(const void* data, std::size_t index) {
  Bits bits;
  std::memcpy(&bits, static_cast<const std::byte*>(data) + index * sizeof bits, sizeof bits);
  return bits;
}

template <class Bits>
void put_bits(void* data, std::size_t index, Bits bits) {
  std::memcpy(static_cast<std::byte*>(data) + index * sizeof bits, &bits, sizeof bits);
}

}  // namespace

double load(DType type, const void* data, std::size_t index) noexcept {
  switch (type) {
    case DType::f32:
      return bits_at<float>(data, index);
    case DType::bf16:
      return float_of_bf16(bits_at<std::uint16_t>(data, index));
    case DType::f16:
      return float_of_f16(bits_at<std::uint16_t>(data, index));
  }
  return 0;
}

void store(DType type, void* data, std::size_t index, double value) noexcept {
  const auto single = static_cast<float>(value);
  switch (type) {
    case DType::f32:
      put_bits(data, index, single);
      break;
    case DType::bf16:
      put_bits(data, index, bf16_of(single));
      break;
    case DType::f16:
      put_bits(data, index, f16_of(single));
      break;
  }
}

}  // namespace kda::reference
