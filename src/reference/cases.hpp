// TABLE: the named problems that tests, tuning and benchmarks share, and what others need for them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kda/kda.hpp"

namespace kda::reference {

// GPU microseconds on one H200, of public kernels as measured before this library was begun; 0: not
// measured.
struct Case {
  const char* name;
  std::int64_t tokens;          // T
  int heads, value_heads;       // H, HV
  int sequences;                // N
  const std::int64_t* lengths;  // [N]; null: T / N each
  double floor;                 // inputs, outputs and states moved once at 4.27 TB/s
  double fla, flash_kda, cula;  // the peers, strong gate
  double bar, goal;             // ours: each holds in every gate regime
};

std::span<const Case> cases();
// Null when there is none of that name.
const Case* find_case(std::string_view name);

// The setting of these: bf16, K = V = 128, the bounded gate at -5, beta as logits, L2 norm in
// the kernel, f32 states given and wanted, value-first; cu_seqlens where N > 1.  Complete.
Problem problem_of(const Case& row);

std::vector<std::int64_t> cu_seqlens_of(const Case& row);

}  // namespace kda::reference
