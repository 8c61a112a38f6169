// The truth: the token recurrence in fp64, on host arrays.  With S [K, V] of each value head,
//   S = diag(exp(g)) S;  S += beta k (v - S^T k)^T;  o = scale S^T q
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kda/kda.hpp"

namespace kda::reference {

// A problem's inputs as doubles holding exactly what the device tensors hold (already rounded to
// their dtypes).  Contiguous: q, k [T, H, K]; v [T, HV, V]; g [T, HV, K]; beta [T, HV];
// initial_state [N, HV, K, V] (key-first, whatever the problem's layout) or empty.
struct Inputs {
  Problem problem;                       // complete
  std::vector<std::int64_t> cu_seqlens;  // [N + 1]; dense problems too
  std::vector<double> q, k, v, g, beta;
  std::vector<double> A_log, dt_bias;  // [HV], [HV, K], or empty
  std::vector<double> initial_state;
  std::int64_t keep_every = 0;                 // tokens; > 0: Outputs::kept is wanted
  std::vector<std::int64_t> committed_tokens;  // [N] or empty

  std::int64_t tokens() const;  // of the arrays; cu_seqlens.back() may be less
  int sequences() const { return static_cast<int>(cu_seqlens.size()) - 1; }
  std::int64_t length_of(int n) const { return cu_seqlens[n + 1] - cu_seqlens[n]; }
  // Tokens of sequence n that its final state knows.
  std::int64_t committed_of(int n) const {
    if (committed_tokens.empty()) return length_of(n);
    return std::clamp<std::int64_t>(committed_tokens[n], 0, length_of(n));
  }
  // States kept inside sequence n.
  std::int64_t kept_of(int n) const { return keep_every > 0 ? length_of(n) / keep_every : 0; }
};

struct Outputs {
  std::vector<double> o;            // [T, HV, V]; NaN where no sequence covers the token
  std::vector<double> final_state;  // [N, HV, K, V], each after committed_of(n) tokens
  // [kept_of(n) of each sequence, HV, K, V]: after the keep_every, 2 * keep_every, ... first tokens
  // of a sequence, one sequence behind the other.
  std::vector<double> kept;
};

// How the products' operands are rounded: not at all (the truth), or as the dtype of the problem
// would round them in a recurrence that multiplies in that dtype and adds in f32.  The latter gives
// the error that a kernel is allowed on hard inputs (error.hpp).
enum class Arithmetic { fp64, operands_rounded };

// Every value head of every sequence, over all cores.  heads: compute only these value heads
// (empty: all); the others' outputs are NaN.
Outputs recurrence(const Inputs& inputs, Arithmetic arithmetic = Arithmetic::fp64,
                   const std::vector<int>& heads = {});

}  // namespace kda::reference
