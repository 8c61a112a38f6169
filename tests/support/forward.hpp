// A run's tensors at made-up addresses, for calls that never read them.
#pragma once

#include <cstdint>

#include "kda/kda.hpp"

namespace kda::test {

// q, k, v, g, beta and o, `apart` bytes one after another from `base` on.
inline Forward forward_at(std::int64_t tokens, std::uintptr_t base, std::uintptr_t apart) {
  const auto at = [&](std::uintptr_t i) { return reinterpret_cast<void*>(base + i * apart); };
  Forward f{.tokens = tokens};
  f.q = at(0);
  f.k = at(1);
  f.v = at(2);
  f.g = at(3);
  f.beta = at(4);
  f.o = at(5);
  return f;
}

}  // namespace kda::test
