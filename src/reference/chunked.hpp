// The chunked form of recurrence.hpp (src/README.md, "Chunks and their factors") in fp64, every
// stage's tensors exposed: what each kernel of the `chunk` strategy must produce.  Decays are
// pairwise, so any gate is exact, -inf included.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/recurrence.hpp"

namespace kda::reference {

// One chunk of one value head.  C rows; rows past `rows` are the tail of a short chunk: zero in
// every tensor but M, whose diagonal is one.  Names as in abi::chunk::Factors where both have them.
struct Chunk {
  int sequence = 0, head = 0;
  std::int64_t first = 0;  // token of row 0
  int rows = 0;            // valid ones, 1..C

  // Activations.
  std::vector<double> q, k;  // [C, K], L2-normalised if the problem says so
  std::vector<double> g;     // [C, K], log decay of each token
  std::vector<double> beta;  // [C]
  std::vector<double> P;     // [C, K], inclusive cumulative sum of g inside the chunk, log units

  // Inside the chunk.
  std::vector<double> Aqk;  // [C, C], scale * sum_c q_i k_j exp(P_i - P_j), i >= j
  std::vector<double> L;    // [C, C], beta_i * sum_c k_i k_j exp(P_i - P_j), i > j
  std::vector<double> M;    // [C, C], (I + L)^-1

  // Factors of the recurrence over chunks: R = v - kd S;  o = qd S + aq R;  S = decay S + ak^T R.
  std::vector<double> kd;     // [C, K], k exp(P)
  std::vector<double> qd;     // [C, K], scale q exp(P)
  std::vector<double> kg;     // [C, K], k exp(Pn - P), Pn the last valid row
  std::vector<double> ak;     // [C, K], (M diag(beta))^T kg
  std::vector<double> aq;     // [C, C], Aqk M diag(beta)
  std::vector<double> decay;  // [K], exp(Pn)

  // The field's form of the same: v_new = u - w S;  o = qd S + Aqk v_new;  S = decay S + kg^T
  // v_new.
  std::vector<double> w;      // [C, K], M (beta kd)
  std::vector<double> u;      // [C, V], M (beta v)
  std::vector<double> v_new;  // [C, V]
  std::vector<double> state;  // [K, V], at the chunk's start
};

struct Chunked {
  std::vector<Chunk> chunks;  // by sequence, then place in the sequence, then value head
  Outputs outputs;
};

Chunked chunked(const Inputs& inputs, int chunk_size);

}  // namespace kda::reference
