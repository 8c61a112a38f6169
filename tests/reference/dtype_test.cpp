#include "reference/dtype.hpp"

#include <limits>

#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("bf16 rounds to nearest, ties to even") {
  CHECK(bf16_of(1.0F) == 0x3f80);
  CHECK(bf16_of(-2.0F) == 0xc000);
  CHECK(bf16_of(0x1.01p0F) == 0x3f80);    // a tie, down to even
  CHECK(bf16_of(0x1.03p0F) == 0x3f82);    // a tie, up to even
  CHECK(bf16_of(0x1.0101p0F) == 0x3f81);  // past the tie
  CHECK(bf16_of(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(bf16_of(kInf) == 0x7f80);
  CHECK(bf16_of(-kInf) == 0xff80);
  CHECK(bf16_of(-0.0F) == 0x8000);
  CHECK(std::isnan(float_of_bf16(bf16_of(kNaN))));
  CHECK(std::isnan(float_of_bf16(bf16_of(std::bit_cast<float>(0x7f800001U)))));
}

TEST_CASE("f16 rounds to nearest, ties to even, subnormals included") {
  CHECK(f16_of(1.0F) == 0x3c00);
  CHECK(f16_of(-2.0F) == 0xc000);
  CHECK(f16_of(65504.0F) == 0x7bff);
  CHECK(f16_of(65519.9F) == 0x7bff);
  CHECK(f16_of(65520.0F) == 0x7c00);
  CHECK(f16_of(1e30F) == 0x7c00);
  CHECK(f16_of(-kInf) == 0xfc00);
  CHECK(f16_of(0x1p-14F) == 0x0400);
  CHECK(f16_of(0x1p-24F) == 0x0001);
  CHECK(f16_of(0x1p-25F) == 0x0000);         // a tie, to even
  CHECK(f16_of(0x1.8p-24F) == 0x0002);       // a tie, to even
  CHECK(f16_of(0x1.000002p-25F) == 0x0001);  // past the tie
  CHECK(f16_of(0x1.ff8p-15F) == 0x03ff);     // the largest subnormal
  CHECK(f16_of(0x1.ffcp-15F) == 0x0400);     // a tie, up into the normals
  CHECK(f16_of(-0.0F) == 0x8000);
  CHECK(std::isnan(float_of_f16(f16_of(kNaN))));
}

TEST_CASE("every 16-bit pattern survives the way to f32 and back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool bf16_same = std::isnan(float_of_bf16(half)) || bf16_of(float_of_bf16(half)) == half;
    const bool f16_same = std::isnan(float_of_f16(half)) || f16_of(float_of_f16(half)) == half;
    if (!bf16_same || !f16_same) FAIL("bits " << bits);
  }
}

TEST_CASE("the vectorisable rounding agrees with the conversions") {
  for (std::uint64_t i = 0; i < 0x100000000U; i += 9973) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    if (std::isnan(value)) {
      if (!std::isnan(round_f16(value))) FAIL("f16 of NaN bits " << i);
      continue;
    }
    const auto same = [&](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    if (!same(round_bf16(value), round_to(DType::bf16, value))) FAIL("bf16 of bits " << i);
    if (!same(round_f16(value), round_to(DType::f16, value))) FAIL("f16 of bits " << i);
  }
}

TEST_CASE("load gives what store rounded") {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(name_of(type));
    unsigned char memory[16] = {};
    store(type, memory, 2, 0.1);
    CHECK(load(type, memory, 2) == round_to(type, 0.1F));
    CHECK(std::fabs(load(type, memory, 2) - 0.1) <= 0.1 * unit_roundoff(type));
    CHECK(load(type, memory, 1) == 0);
    CHECK(load(type, memory, 3) == 0);
  }
}
