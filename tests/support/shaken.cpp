#include "support/shaken.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace kda::test {

namespace {

// Of scores of unit rows, and of keys decayed to their chunk's end, in f16
// (sm90/factors/sizes.cuh).
constexpr double kLeastScore = 0x1p-24, kLeastKey = 0x1p-39;

// A matrix, or its transpose, as it lies.
struct View {
  const double* at;
  std::int64_t row, column;
};

// to [rows, columns] += sign a b, with a [rows, inner].
void add_product(View a, const double* b, int rows, int inner, int columns, double sign,
                 double* to) {
  for (int i = 0; i < rows; ++i) {
    for (int l = 0; l < inner; ++l) {
      const double factor = sign * a.at[i * a.row + l * a.column];
      if (factor == 0) continue;
      for (int j = 0; j < columns; ++j) to[i * columns + j] += factor * b[l * columns + j];
    }
  }
}

}  // namespace

ShakenChunks::ShakenChunks(const reference::Inputs& in, int chunk, double roundoff)
    : in_(in), chunk_(chunk), roundoff_(roundoff), chunks_(reference::chunked(in, chunk).chunks) {}

reference::Outputs ShakenChunks::run(Dice dice) const {
  const Problem& p = in_.problem;
  const auto state = static_cast<std::size_t>(p.key_dim) * p.value_dim;
  const auto heads = static_cast<std::size_t>(p.value_heads);
  reference::Outputs out;
  out.o.assign(in_.v.size(), std::numeric_limits<double>::quiet_NaN());
  out.final_state = in_.initial_state;
  if (out.final_state.empty()) {
    out.final_state.assign(static_cast<std::size_t>(in_.sequences()) * heads * state, 0.0);
  }
  for (const reference::Chunk& chunk : chunks_) {
    const auto at =
        static_cast<std::size_t>(chunk.sequence) * heads + static_cast<std::size_t>(chunk.head);
    advance(chunk, dice, &out.final_state[at * state], out.o);
  }
  return out;
}

// Up to two roundings, or by `least`, however small a number is; zeros are exact.
ShakenChunks::Matrix ShakenChunks::off(Matrix a, Dice& dice, double least) const {
  for (double& x : a) {
    if (x != 0) x += (2 * roundoff_ * std::abs(x) + least) * (2 * dice.uniform() - 1);
  }
  return a;
}

// (I + lower)^-1
ShakenChunks::Matrix ShakenChunks::inverse_of(const Matrix& lower, Dice& dice) const {
  const Matrix l = off(lower, dice);
  Matrix out(l.size(), 0.0);
  for (int i = 0; i < chunk_; ++i) {
    out[i * chunk_ + i] = 1;
    for (int m = 0; m < i; ++m) {
      for (int j = 0; j <= m; ++j) out[i * chunk_ + j] -= l[i * chunk_ + m] * out[m * chunk_ + j];
    }
  }
  return off(out, dice);
}

// R = v - Kd S;  U = (I + L)^-1 beta R;  o = Qd S + Aqk U;  S = decay S + Kg^T U.
void ShakenChunks::advance(const reference::Chunk& chunk, Dice& dice, double* state,
                           Matrix& o) const {
  const Problem& p = in_.problem;
  const int K = p.key_dim, V = p.value_dim, rows = chunk.rows;
  const auto values = static_cast<std::size_t>(chunk_) * V;
  const auto row_at = [&](int i) { return ((chunk.first + i) * p.value_heads + chunk.head) * V; };
  const Matrix s = off(Matrix(state, state + static_cast<std::ptrdiff_t>(K) * V), dice);

  Matrix r(values, 0.0);
  for (int i = 0; i < rows; ++i) std::copy_n(&in_.v[row_at(i)], V, &r[i * V]);
  add_product({off(chunk.kd, dice).data(), K, 1}, s.data(), rows, K, V, -1, r.data());
  r = off(r, dice);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < V; ++j) r[i * V + j] *= chunk.beta[i];
  }
  Matrix u(values, 0.0);
  add_product({inverse_of(chunk.L, dice).data(), chunk_, 1}, r.data(), chunk_, chunk_, V, 1,
              u.data());
  u = off(u, dice);

  Matrix read(values, 0.0);
  add_product({off(chunk.qd, dice).data(), K, 1}, s.data(), rows, K, V, 1, read.data());
  const Matrix scores = off(chunk.Aqk, dice, p.scale * kLeastScore);
  add_product({scores.data(), chunk_, 1}, u.data(), rows, chunk_, V, 1, read.data());
  for (int i = 0; i < rows; ++i) std::copy_n(&read[i * V], V, &o[row_at(i)]);

  for (int c = 0; c < K; ++c) {
    for (int j = 0; j < V; ++j) state[c * V + j] *= chunk.decay[c];
  }
  const Matrix keys = off(chunk.kg, dice, kLeastKey);
  add_product({keys.data(), 1, K}, u.data(), K, rows, V, 1, state);
}

}  // namespace kda::test
