#include "reference/recurrence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/activation.hpp"
#include "reference/dtype.hpp"
#include "reference/parallel.hpp"

namespace kda::reference {
namespace {

constexpr int kColumns = 32;  // V columns of the state walked together: K x 32 stays near
constexpr int kTokens = 64;   // tokens whose activations are computed at once

// Operands of the products: as they are, or rounded to a dtype.
template <class Number>
struct Exact {
  using Real = Number;
  static Real operand(Real x) { return x; }
};
struct RoundedBf16 {
  using Real = float;
  static Real operand(Real x) { return round_bf16(x); }
};
struct RoundedF16 {
  using Real = float;
  static Real operand(Real x) { return round_f16(x); }
};

// One sequence of one value head, columns [first_column, end_column) of V.
struct Task {
  const Inputs* in;
  Outputs* out;
  int sequence, head;
  int first_column, end_column;
  std::int64_t first_kept;  // of the sequence, in Outputs::kept
};

// Activations of up to kTokens tokens of one head.
template <class Real>
struct Tile {
  std::vector<Real> decay, q, k;  // [kTokens, K]
  std::vector<Real> beta;         // [kTokens]
  explicit Tile(int key_dim)
      : decay(static_cast<std::size_t>(kTokens) * key_dim),
        q(decay.size()),
        k(decay.size()),
        beta(kTokens) {}
};

template <class Policy, class Real = typename Policy::Real>
void activate(const Task& task, std::int64_t first, int tokens, Tile<Real>& tile) {
  const Inputs& in = *task.in;
  const Problem& p = in.problem;
  const int K = p.key_dim;
  const int key_head = task.head / (p.value_heads / p.heads);
  const Real exp_A = in.A_log.empty() ? Real(1) : std::exp(static_cast<Real>(in.A_log[task.head]));
  for (int t = 0; t < tokens; ++t) {
    const std::int64_t token = first + t;
    const double* q = &in.q[(token * p.heads + key_head) * K];
    const double* k = &in.k[(token * p.heads + key_head) * K];
    const double* g = &in.g[(token * p.value_heads + task.head) * K];
    const double* bias = in.dt_bias.empty() ? nullptr : &in.dt_bias[std::int64_t{task.head} * K];
    const Real q_factor = row_factor<Real>(p, q), k_factor = row_factor<Real>(p, k);
    for (int c = 0; c < K; ++c) {
      const std::size_t at = static_cast<std::size_t>(t) * K + c;
      const Real dt_bias = bias ? static_cast<Real>(bias[c]) : Real(0);
      tile.decay[at] = std::exp(log_decay(p, static_cast<Real>(g[c]), exp_A, dt_bias));
      tile.q[at] = Policy::operand(static_cast<Real>(q[c]) * q_factor);
      tile.k[at] = Policy::operand(static_cast<Real>(k[c]) * k_factor);
    }
    tile.beta[t] = activated_beta(p, static_cast<Real>(in.beta[token * p.value_heads + task.head]));
  }
}

// One token over kColumns columns.  state [K, kColumns]; v and o [kColumns].
template <class Policy, class Real = typename Policy::Real>
void step(int K, const Real* __restrict decay, const Real* __restrict q, const Real* __restrict k,
          Real beta, Real scale, const Real* __restrict v, Real* __restrict state,
          Real* __restrict o) {
  Real predicted[kColumns] = {}, error[kColumns], read[kColumns] = {};
  for (int c = 0; c < K; ++c) {
    Real* row = state + c * kColumns;
    for (int j = 0; j < kColumns; ++j) {
      row[j] *= decay[c];
      predicted[j] += k[c] * Policy::operand(row[j]);
    }
  }
  for (int j = 0; j < kColumns; ++j) error[j] = Policy::operand(beta * (v[j] - predicted[j]));
  for (int c = 0; c < K; ++c) {
    Real* row = state + c * kColumns;
    for (int j = 0; j < kColumns; ++j) {
      row[j] += k[c] * error[j];
      read[j] += q[c] * Policy::operand(row[j]);
    }
  }
  for (int j = 0; j < kColumns; ++j) o[j] = scale * read[j];
}

template <class Policy, class Real = typename Policy::Real>
void run(const Task& task, bool round_outputs) {
  const Inputs& in = *task.in;
  const Problem& p = in.problem;
  const int K = p.key_dim, V = p.value_dim, HV = p.value_heads;
  const int blocks = (task.end_column - task.first_column + kColumns - 1) / kColumns;
  const std::size_t block_size = static_cast<std::size_t>(K) * kColumns;
  const std::size_t state_at =
      (static_cast<std::size_t>(task.sequence) * HV + task.head) * K * static_cast<std::size_t>(V);
  const auto scale = static_cast<Real>(p.scale);

  // Column blocks, zero beyond V.
  std::vector<Real> state(block_size * blocks, Real(0));
  const auto columns_of_block = [&](int block, std::size_t matrix, auto&& visit) {
    const int column = task.first_column + block * kColumns;
    for (int c = 0; c < K; ++c)
      for (int j = 0; j < std::min(kColumns, task.end_column - column); ++j)
        visit(state[block * block_size + c * kColumns + j],
              matrix + static_cast<std::size_t>(c) * V + column + j);
  };
  const auto each_column = [&](auto&& visit) {
    for (int block = 0; block < blocks; ++block) columns_of_block(block, state_at, visit);
  };
  const auto stored = [&](Real s) {
    return round_outputs ? round_to(p.state_type, static_cast<float>(s)) : double(s);
  };
  if (!in.initial_state.empty())
    each_column([&](Real& s, std::size_t at) { s = static_cast<Real>(in.initial_state[at]); });
  const auto keep_final = [&](Real s, std::size_t at) { task.out->final_state[at] = stored(s); };
  const std::int64_t committed = in.committed_of(task.sequence);
  if (committed == 0) each_column(keep_final);

  Tile<Real> tile(K);
  const std::int64_t end = in.cu_seqlens[task.sequence + 1];
  for (std::int64_t first = in.cu_seqlens[task.sequence]; first < end; first += kTokens) {
    const int tokens = static_cast<int>(std::min<std::int64_t>(kTokens, end - first));
    activate<Policy>(task, first, tokens, tile);
    for (int block = 0; block < blocks; ++block) {
      const int column = task.first_column + block * kColumns;
      const int width = std::min(kColumns, task.end_column - column);
      for (int t = 0; t < tokens; ++t) {
        const std::int64_t row = ((first + t) * HV + task.head) * V + column;
        const std::size_t at = static_cast<std::size_t>(t) * K;
        Real v[kColumns] = {}, o[kColumns];
        for (int j = 0; j < width; ++j) v[j] = static_cast<Real>(in.v[row + j]);
        step<Policy>(K, &tile.decay[at], &tile.q[at], &tile.k[at], tile.beta[t], scale, v,
                     &state[block * block_size], o);
        for (int j = 0; j < width; ++j)
          task.out->o[row + j] =
              round_outputs ? round_to(p.qkv_type, static_cast<float>(o[j])) : double(o[j]);
        const std::int64_t done = first + t + 1 - in.cu_seqlens[task.sequence];
        if (in.keep_every > 0 && done % in.keep_every == 0) {
          const std::int64_t kept = task.first_kept + done / in.keep_every - 1;
          columns_of_block(block,
                           static_cast<std::size_t>(kept * HV + task.head) * K * std::size_t(V),
                           [&](Real s, std::size_t at) { task.out->kept[at] = stored(s); });
        }
        if (done == committed) columns_of_block(block, state_at, keep_final);
      }
    }
  }
}

void run(const Task& task, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::fp64) return run<Exact<double>>(task, false);
  switch (task.in->problem.qkv_type) {
    case DType::f32:
      return run<Exact<float>>(task, true);
    case DType::bf16:
      return run<RoundedBf16>(task, true);
    case DType::f16:
      return run<RoundedF16>(task, true);
  }
}

// Sequences by heads, their V columns split further while cores would idle.
std::vector<Task> tasks_of(const Inputs& in, Outputs& out, const std::vector<int>& heads) {
  const int V = in.problem.value_dim;
  const auto whole = static_cast<int>(heads.size()) * in.sequences();
  const int most = (V + kColumns - 1) / kColumns;
  const int wanted = (2 * static_cast<int>(cores()) + whole - 1) / std::max(whole, 1);
  const int parts = std::clamp(wanted, 1, most);
  const int width = (most + parts - 1) / parts * kColumns;
  std::vector<Task> tasks;
  std::int64_t kept = 0;
  for (int sequence = 0; sequence < in.sequences(); ++sequence) {
    for (const int head : heads)
      for (int column = 0; column < V; column += width)
        tasks.push_back({&in, &out, sequence, head, column, std::min(V, column + width), kept});
    kept += in.kept_of(sequence);
  }
  const auto length = [&](const Task& task) {
    return in.cu_seqlens[task.sequence + 1] - in.cu_seqlens[task.sequence];
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const Task& a, const Task& b) { return length(a) > length(b); });
  return tasks;
}

}  // namespace

std::int64_t Inputs::tokens() const {
  return static_cast<std::int64_t>(beta.size()) / problem.value_heads;
}

Outputs recurrence(const Inputs& inputs, Arithmetic arithmetic, const std::vector<int>& heads) {
  const Problem& p = inputs.problem;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Outputs out;
  out.o.assign(inputs.v.size(), nan);
  const auto state =
      static_cast<std::size_t>(p.value_heads) * p.key_dim * static_cast<std::size_t>(p.value_dim);
  out.final_state.assign(inputs.sequences() * state, nan);
  std::int64_t kept = 0;
  for (int n = 0; n < inputs.sequences(); ++n) kept += inputs.kept_of(n);
  out.kept.assign(static_cast<std::size_t>(kept) * state, nan);
  std::vector<int> chosen = heads;
  if (chosen.empty()) {
    chosen.resize(p.value_heads);
    std::iota(chosen.begin(), chosen.end(), 0);
  }
  const std::vector<Task> tasks = tasks_of(inputs, out, chosen);
  parallel_for(static_cast<std::int64_t>(tasks.size()),
               [&](std::int64_t i) { run(tasks[i], arithmetic); });
  return out;
}

}  // namespace kda::reference
