// Arguments of kernels that may have nothing to do, and stay out then (base/guard.cuh).
#pragma once

namespace kda::abi {

// When a kernel is at work: KDA_GUARDED.
enum class Guard : int {
  none,     // always
  found,    // where a kernel before it found something
  alike,    // in a pack whose longest sequence has no more than so many tokens
  unlike,   // in one whose longest has more
  unfound,  // where a kernel before it found nothing
};

// Words in which that kernel says what it has found, a block each; and what a kernel that is at
// work where nothing was found writes there if it finds something itself, for the kernels behind
// it.
constexpr int guard_words = 128;
constexpr unsigned found_later = 2;

// What is moved where nothing was found.
struct Move {
  const void* from = nullptr;  // on 16 bytes
  void* to = nullptr;          // on 2
  long long bytes = 0;         // even
};

// Guard::found and Guard::unfound.
template <class Args>
struct Guarded {
  Args args;
  unsigned* found = nullptr;  // [guard_words], not 0 where something was
  Move instead;               // by the kernel that asks for it
  // [N, HV, K, V] or [N, HV, V, K]: what sequences in a pool began from, where the kernel before
  // may have written over it; or null.
  const void* kept = nullptr;
};

// Guard::alike and Guard::unlike.
template <class Args>
struct OfLengths {
  Args args;
  long long most = 0;  // tokens
};

}  // namespace kda::abi
