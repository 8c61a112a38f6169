// A problem's tensors on the host, bit for bit as a device holds them, and their way to the
// reference and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kda/kda.hpp"
#include "reference/recurrence.hpp"

namespace kda::reference {

using Bytes = std::vector<std::byte>;

// Contiguous, in the problem's dtypes and state layout.
struct Tensors {
  Problem problem;  // complete
  std::int64_t tokens = 0;
  std::vector<std::int64_t> cu_seqlens;        // [N + 1]; dense problems too
  Bytes q, k;                                  // [T, H, K]
  Bytes v;                                     // [T, HV, V]
  Bytes g;                                     // [T, HV, K]
  Bytes beta;                                  // [T, HV]
  std::vector<float> A_log, dt_bias;           // [HV], [HV, K], or empty
  Bytes initial_state;                         // [N, HV, V, K] or [N, HV, K, V], or empty
  std::vector<std::int64_t> committed_tokens;  // [N], or empty

  int sequences() const { return static_cast<int>(cu_seqlens.size()) - 1; }
};

// 0, l0, l0 + l1, ...
std::vector<std::int64_t> cu_seqlens_of(const std::vector<std::int64_t>& lengths);

// The values of the chosen value heads alone (empty: of all).  Chosen heads become a problem of
// their own with heads = value_heads = heads.size(), so large cases need memory only for those.
Inputs reference_inputs(const Tensors& tensors, const std::vector<int>& heads = {});

// `count` states as a device holds them, one behind the other, to [count, HV, K, V].
std::vector<double> state_values(const Problem& problem, const void* states, int count);

// What a device wrote, o [T, HV, V] and final_state in the problem's layout (or null), in the form
// that recurrence(reference_inputs(tensors, heads)) gives.
Outputs reference_outputs(const Tensors& tensors, const void* o, const void* final_state,
                          const std::vector<int>& heads = {});

}  // namespace kda::reference
