// Arguments of a kernel that stays out where one before it found nothing (base/guard.cuh).
#pragma once

namespace kda::abi {

// Words in which that kernel says what it has found, a block each.
constexpr int guard_words = 128;

// What is moved where nothing was found.
struct Move {
  const void* from = nullptr;  // on 16 bytes
  void* to = nullptr;          // on 2
  long long bytes = 0;         // even
};

template <class Args>
struct Guarded {
  Args args;
  const unsigned* found = nullptr;  // [guard_words], not 0 where something was
  Move instead;                     // by the kernel that asks for it
  // [N, HV, K, V] or [N, HV, V, K]: what sequences in a pool began from, where the kernel before
  // may have written over it; or null.
  const void* kept = nullptr;
};

}  // namespace kda::abi
