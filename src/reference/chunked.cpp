#include "reference/chunked.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/activation.hpp"
#include "reference/parallel.hpp"

namespace kda::reference {
namespace {

using Matrix = std::vector<double>;

// [rows, columns] = op(a) b, with a [rows, inner], or [inner, rows] when transposed.
Matrix product(const Matrix& a, const Matrix& b, int rows, int inner, int columns,
               bool transposed = false) {
  Matrix out(static_cast<std::size_t>(rows) * columns, 0.0);
  for (int i = 0; i < rows; ++i)
    for (int l = 0; l < inner; ++l) {
      const double factor = transposed ? a[l * rows + i] : a[i * inner + l];
      for (int j = 0; j < columns; ++j) out[i * columns + j] += factor * b[l * columns + j];
    }
  return out;
}

// Row i of a times factors[i], or column j times factors[j].
Matrix scaled_rows(Matrix a, const Matrix& factors) {
  const std::size_t columns = a.size() / factors.size();
  for (std::size_t i = 0; i < a.size(); ++i) a[i] *= factors[i / columns];
  return a;
}
Matrix scaled_columns(Matrix a, const Matrix& factors) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] *= factors[i % factors.size()];
  return a;
}

void activate(const Inputs& in, int C, Chunk& chunk) {
  const Problem& p = in.problem;
  const int K = p.key_dim, HV = p.value_heads;
  const int key_head = chunk.head / (HV / p.heads);
  const double exp_A = in.A_log.empty() ? 1.0 : std::exp(in.A_log[chunk.head]);
  const auto size = static_cast<std::size_t>(C) * K;
  chunk.q.assign(size, 0.0);
  chunk.k = chunk.g = chunk.P = chunk.q;
  chunk.beta.assign(C, 0.0);
  for (int i = 0; i < chunk.rows; ++i) {
    const std::int64_t token = chunk.first + i;
    const double* q = &in.q[(token * p.heads + key_head) * K];
    const double* k = &in.k[(token * p.heads + key_head) * K];
    const double* g = &in.g[(token * HV + chunk.head) * K];
    const double q_factor = row_factor<double>(p, q), k_factor = row_factor<double>(p, k);
    for (int c = 0; c < K; ++c) {
      const double bias = in.dt_bias.empty() ? 0.0 : in.dt_bias[chunk.head * K + c];
      chunk.q[i * K + c] = q[c] * q_factor;
      chunk.k[i * K + c] = k[c] * k_factor;
      chunk.g[i * K + c] = log_decay(p, g[c], exp_A, bias);
    }
    chunk.beta[i] = activated_beta(p, in.beta[token * HV + chunk.head]);
  }
  for (int i = 0; i < chunk.rows; ++i)
    for (int c = 0; c < K; ++c)
      chunk.P[i * K + c] = chunk.g[i * K + c] + (i > 0 ? chunk.P[(i - 1) * K + c] : 0.0);
}

// Aqk and L.  exp(P_i - P_j) is exp of the sum of g over (j, i]: -inf - -inf never appears.
void scores(const Problem& p, int C, Chunk& chunk) {
  const int K = p.key_dim;
  chunk.Aqk.assign(static_cast<std::size_t>(C) * C, 0.0);
  chunk.L = chunk.Aqk;
  for (int j = 0; j < chunk.rows; ++j) {
    Matrix log(K, 0.0);
    for (int i = j; i < chunk.rows; ++i) {
      double qk = 0, kk = 0;
      for (int c = 0; c < K; ++c) {
        if (i > j) log[c] += chunk.g[i * K + c];
        const double decayed = chunk.k[j * K + c] * std::exp(log[c]);
        qk += chunk.q[i * K + c] * decayed;
        kk += chunk.k[i * K + c] * decayed;
      }
      chunk.Aqk[i * C + j] = p.scale * qk;
      if (i > j) chunk.L[i * C + j] = chunk.beta[i] * kk;
    }
  }
}

// (I + L)^-1 by forward substitution, L strictly lower.
Matrix inverse(const Matrix& L, int C) {
  Matrix M(L.size(), 0.0);
  for (int i = 0; i < C; ++i) {
    M[i * C + i] = 1;
    for (int l = 0; l < i; ++l)
      for (int j = 0; j <= l; ++j) M[i * C + j] -= L[i * C + l] * M[l * C + j];
  }
  return M;
}

void factors(const Problem& p, int C, Chunk& chunk) {
  const int K = p.key_dim, last = chunk.rows - 1;
  chunk.M = inverse(chunk.L, C);
  chunk.kd = chunk.k;
  chunk.qd = chunk.q;
  chunk.kg = chunk.k;
  chunk.decay.assign(K, 0.0);
  for (int c = 0; c < K; ++c) {
    double to_end = 0;
    for (int i = last; i >= 0; --i) {
      chunk.kd[i * K + c] *= std::exp(chunk.P[i * K + c]);
      chunk.qd[i * K + c] *= p.scale * std::exp(chunk.P[i * K + c]);
      chunk.kg[i * K + c] *= std::exp(to_end);
      to_end += chunk.g[i * K + c];
    }
    chunk.decay[c] = std::exp(to_end);
  }
  const Matrix M_beta = scaled_columns(chunk.M, chunk.beta);
  chunk.ak = product(M_beta, chunk.kg, C, C, K, true);
  chunk.aq = product(chunk.Aqk, M_beta, C, C, C);
  chunk.w = product(chunk.M, scaled_rows(chunk.kd, chunk.beta), C, C, K);
}

// u, v_new, the outputs, and state [K, V] to the chunk's end.
void advance(const Inputs& in, int C, Chunk& chunk, Matrix& state, Matrix& o) {
  const Problem& p = in.problem;
  const int K = p.key_dim, V = p.value_dim;
  Matrix v(static_cast<std::size_t>(C) * V, 0.0);
  const auto row_at = [&](int i) { return ((chunk.first + i) * p.value_heads + chunk.head) * V; };
  for (int i = 0; i < chunk.rows; ++i)
    std::copy_n(&in.v[row_at(i)], V, &v[static_cast<std::size_t>(i) * V]);

  chunk.state = state;
  chunk.u = product(chunk.M, scaled_rows(v, chunk.beta), C, C, V);
  chunk.v_new = chunk.u;
  const Matrix predicted = product(chunk.w, state, C, K, V);
  for (std::size_t i = 0; i < predicted.size(); ++i) chunk.v_new[i] -= predicted[i];

  Matrix read = product(chunk.qd, state, C, K, V);
  const Matrix inside = product(chunk.Aqk, chunk.v_new, C, C, V);
  for (int i = 0; i < chunk.rows; ++i)
    for (int j = 0; j < V; ++j) o[row_at(i) + j] = read[i * V + j] + inside[i * V + j];

  const Matrix written = product(chunk.kg, chunk.v_new, K, C, V, true);
  for (int c = 0; c < K; ++c)
    for (int j = 0; j < V; ++j)
      state[c * V + j] = chunk.decay[c] * state[c * V + j] + written[c * V + j];
}

// Every (chunk, head) with its place filled in.
std::vector<Chunk> grid(const Inputs& in, int C) {
  std::vector<Chunk> chunks;
  for (int n = 0; n < in.sequences(); ++n)
    for (std::int64_t first = in.cu_seqlens[n]; first < in.cu_seqlens[n + 1]; first += C)
      for (int head = 0; head < in.problem.value_heads; ++head) {
        Chunk chunk;
        chunk.sequence = n;
        chunk.head = head;
        chunk.first = first;
        chunk.rows = static_cast<int>(std::min<std::int64_t>(C, in.cu_seqlens[n + 1] - first));
        chunks.push_back(chunk);
      }
  return chunks;
}

}  // namespace

Chunked chunked(const Inputs& in, int C) {
  const Problem& p = in.problem;
  const auto state_size = static_cast<std::size_t>(p.key_dim) * p.value_dim;
  Chunked out;
  out.chunks = grid(in, C);
  out.outputs.o.assign(in.v.size(), std::numeric_limits<double>::quiet_NaN());
  out.outputs.final_state.assign(in.sequences() * p.value_heads * state_size, 0.0);
  if (!in.initial_state.empty()) out.outputs.final_state = in.initial_state;

  parallel_for(static_cast<std::int64_t>(out.chunks.size()), [&](std::int64_t i) {
    activate(in, C, out.chunks[i]);
    scores(p, C, out.chunks[i]);
    factors(p, C, out.chunks[i]);
  });
  parallel_for(p.value_heads, [&](std::int64_t head) {
    Matrix state;
    int sequence = -1;
    const auto slice = [&] {
      return out.outputs.final_state.begin() +
             static_cast<std::ptrdiff_t>((sequence * std::int64_t{p.value_heads} + head) *
                                         static_cast<std::int64_t>(state_size));
    };
    const auto leave = [&] {
      if (sequence >= 0) std::copy(state.begin(), state.end(), slice());
    };
    for (Chunk& chunk : out.chunks) {
      if (chunk.head != head) continue;
      if (chunk.sequence != sequence) {
        leave();
        sequence = chunk.sequence;
        state.assign(slice(), slice() + static_cast<std::ptrdiff_t>(state_size));
      }
      advance(in, C, chunk, state, out.outputs.o);
    }
    leave();
  });
  return out;
}

}  // namespace kda::reference
