// Random numbers by counter: number i of a stream costs the same whatever came before.
#pragma once

#include <cmath>
#include <cstdint>

namespace kda::reference {

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : key_(mix(seed * 64 + stream)) {}

  std::uint64_t bits(std::uint64_t i) const { return mix(key_ + i * 0x9e3779b97f4a7c15U); }

  // In (0, 1).
  float uniform(std::uint64_t i) const { return unit(static_cast<std::uint32_t>(bits(i) >> 32)); }

  // N(0, 1) by Box and Muller: out[j] = number first + j, first even.
  void normals(std::uint64_t first, std::int64_t count, float* out) const {
    for (std::int64_t j = 0; j < count; j += 2) {
      const std::uint64_t pair = bits(first / 2 + static_cast<std::uint64_t>(j) / 2);
      const float radius = std::sqrt(-2 * std::log(unit(static_cast<std::uint32_t>(pair))));
      const float angle = 6.28318530718F * unit(static_cast<std::uint32_t>(pair >> 32));
      out[j] = radius * std::cos(angle);
      if (j + 1 < count) out[j + 1] = radius * std::sin(angle);
    }
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  // The middle of one of 2^24 equal parts of (0, 1).
  static float unit(std::uint32_t bits) {
    return (static_cast<float>(bits >> 8) + 0.5F) * 0x1p-24F;
  }

  std::uint64_t key_;
};

}  // namespace kda::reference
