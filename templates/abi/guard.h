// Arguments of a kernel that stays out where one before it found nothing (base/guard.cuh).
#pragma once

namespace kda::abi {

// Words in which that kernel says what it has found, a block each.
constexpr int guard_words = 128;

template <class Args>
struct Guarded {
  Args args;
  const unsigned* found = nullptr;  // [guard_words], not 0 where something was
};

}  // namespace kda::abi
