#include "reference/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/activation.hpp"
#include "reference/dtype.hpp"
#include "reference/parallel.hpp"
#include "reference/random.hpp"

namespace kda::reference {
namespace {

enum Stream : std::uint64_t {
  kQ,
  kK,
  kV,
  kG,
  kBeta,
  kALog,
  kDtBias,
  kState,
  kBase,
  kOther,
  kNorm,
  kCommitted
};

constexpr const char* kGateNames[] = {"strong",   "weak",       "mixed",       "constant",
                                      "by_token", "by_channel", "one_channel", "spike"};
constexpr const char* kKeyNames[] = {"random",   "identical", "correlated",   "alternating",
                                     "rank_two", "zero",      "unnormalised", "overlong"};

// How many rows, and how many of them before they repeat.
struct Rows {
  std::int64_t all, distinct;
};

Rows rows_a_token(std::int64_t tokens, std::int64_t heads, const InputSpec& spec) {
  const std::int64_t distinct = spec.period > 0 ? std::min(tokens, spec.period) : tokens;
  return {tokens * heads, distinct * heads};
}

// [rows, columns] of `type`; fill(row, values) writes one row of floats.
template <class Fill>
Bytes rows_of(DType type, Rows rows, std::int64_t columns, const Fill& fill) {
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * bytes_of(type);
  Bytes out(static_cast<std::size_t>(rows.all) * row_bytes);
  constexpr std::int64_t kBlock = 256;
  parallel_for((rows.distinct + kBlock - 1) / kBlock, [&](std::int64_t block) {
    std::vector<float> values(static_cast<std::size_t>(columns));
    const std::int64_t end = std::min(rows.distinct, (block + 1) * kBlock);
    for (std::int64_t row = block * kBlock; row < end; ++row) {
      fill(row, values.data());
      for (std::int64_t c = 0; c < columns; ++c)
        store(type, out.data(), static_cast<std::size_t>(row * columns + c), values[c]);
    }
  });
  if (rows.distinct == 0) return out;
  parallel_for((rows.all - 1) / rows.distinct, [&](std::int64_t copy) {
    const std::int64_t first = (copy + 1) * rows.distinct;
    const std::int64_t count = std::min(rows.distinct, rows.all - first);
    std::memcpy(out.data() + static_cast<std::size_t>(first) * row_bytes, out.data(),
                static_cast<std::size_t>(count) * row_bytes);
  });
  return out;
}

// Row `row` of N(0, 1); rows start at even numbers, as Random::normals wants.
void normal_row(const Random& random, std::int64_t row, std::int64_t columns, float* out) {
  random.normals(static_cast<std::uint64_t>(row * ((columns + 1) / 2 * 2)), columns, out);
}

void scale_row(float* row, int columns, double factor) {
  for (int c = 0; c < columns; ++c) row[c] = static_cast<float>(row[c] * factor);
}

double norm_of(const float* row, int columns) {
  double squares = 0;
  for (int c = 0; c < columns; ++c) squares += double(row[c]) * row[c];
  return std::sqrt(squares);
}

Bytes make_q(const Problem& p, std::int64_t tokens, const InputSpec& spec) {
  const Random random(spec.seed, kQ);
  const Rows rows = rows_a_token(tokens, p.heads, spec);
  return rows_of(p.qkv_type, rows, p.key_dim, [&](std::int64_t row, float* out) {
    normal_row(random, row, p.key_dim, out);
    if (!p.l2norm_qk || spec.row_norm) {
      const double norm = p.l2norm_qk ? *spec.row_norm : 1;
      scale_row(out, p.key_dim, norm / norm_of(out, p.key_dim));
    }
  });
}

// out += factor * N(0, 1) row.
void add_normal(const Random& random, std::int64_t row, int columns, double factor, float* out) {
  std::vector<float> other(columns);
  normal_row(random, row, columns, other.data());
  for (int c = 0; c < columns; ++c) out[c] += static_cast<float>(factor * other[c]);
}

void key_row(const Problem& p, const InputSpec& spec, std::int64_t row, float* out) {
  const int K = p.key_dim;
  const std::int64_t token = row / p.heads, head = row % p.heads;
  const Random random(spec.seed, kK), base(spec.seed, kBase);
  std::fill_n(out, K, 0.0F);
  switch (spec.keys) {
    case KeyPattern::random:
    case KeyPattern::unnormalised:
      normal_row(random, row, K, out);
      break;
    case KeyPattern::identical:
    case KeyPattern::overlong:
      normal_row(base, head, K, out);
      break;
    case KeyPattern::correlated:
      add_normal(base, head, K, 0.95, out);
      add_normal(random, row, K, 0.3, out);
      break;
    case KeyPattern::alternating:
      add_normal(base, head, K, token % 2 == 0 ? 1 : -1, out);
      break;
    case KeyPattern::rank_two: {
      const double angle = 6.283185307 * random.uniform(static_cast<std::uint64_t>(row));
      add_normal(base, head, K, std::cos(angle), out);
      add_normal(Random(spec.seed, kOther), head, K, std::sin(angle), out);
      break;
    }
    case KeyPattern::zero:
      return;
  }
  if (p.l2norm_qk) {
    if (spec.row_norm) scale_row(out, K, *spec.row_norm / norm_of(out, K));
    return;
  }
  double norm = spec.keys == KeyPattern::overlong ? 1.4 : 1;
  if (spec.keys == KeyPattern::unnormalised) {
    norm = 0.25 + Random(spec.seed, kNorm).uniform(std::uint64_t(row));
  }
  scale_row(out, K, norm / norm_of(out, K));
}

// What the regime adds to g on channel c where dt_bias does not.
double regime_bias(GatePattern gate, int c, double drawn) {
  if (gate == GatePattern::weak || (gate == GatePattern::mixed && c % 2 == 1)) return -8;
  return drawn;
}

bool is_regime(GatePattern gate) { return gate <= GatePattern::mixed; }

double pattern_value(const InputSpec& spec, std::int64_t token, int c, int K) {
  switch (spec.gate) {
    case GatePattern::by_token:
      return token % 2 == 0 ? spec.gate_value : spec.gate_other;
    case GatePattern::by_channel:
      return c % 2 == 0 ? spec.gate_value : spec.gate_other;
    case GatePattern::one_channel:
      return c == K / 2 ? spec.gate_other : spec.gate_value;
    case GatePattern::spike:
      return token % spec.gate_period == spec.gate_position ? spec.gate_other : spec.gate_value;
    default:
      return spec.gate_value;
  }
}

void gate_row(const Tensors& t, const InputSpec& spec, std::int64_t row, float* out) {
  const Problem& p = t.problem;
  const std::int64_t token = row / p.value_heads, head = row % p.value_heads;
  const Random bias(spec.seed, kDtBias);
  if (is_regime(spec.gate)) normal_row(Random(spec.seed, kG), row, p.key_dim, out);
  for (int c = 0; c < p.key_dim; ++c) {
    if (!is_regime(spec.gate)) {
      out[c] = static_cast<float>(pattern_value(spec, token, c, p.key_dim));
      continue;
    }
    if (!t.dt_bias.empty()) continue;  // the kernel adds it
    const double drawn = bias.uniform(static_cast<std::uint64_t>(head * p.key_dim + c));
    const double x = out[c] + regime_bias(spec.gate, c, drawn);
    const double exp_A = std::exp(Random(spec.seed, kALog).uniform(std::uint64_t(head)));
    out[c] = static_cast<float>(p.gate == Gate::log_decay    ? -5 * sigmoid(exp_A * x)
                                : p.gate == Gate::logsigmoid ? -x  // larger is weaker
                                                             : x);
  }
}

void make_gate_parameters(Tensors& t, const InputSpec& spec) {
  const Problem& p = t.problem;
  if (p.gate == Gate::log_decay || p.gate == Gate::logsigmoid) return;
  const Random A(spec.seed, kALog), bias(spec.seed, kDtBias);
  for (int head = 0; spec.A_log && head < p.value_heads; ++head)
    t.A_log.push_back(spec.A_log_value ? static_cast<float>(*spec.A_log_value) : A.uniform(head));
  for (int i = 0; spec.dt_bias && i < p.value_heads * p.key_dim; ++i) {
    const double regime =
        is_regime(spec.gate) ? regime_bias(spec.gate, i % p.key_dim, bias.uniform(i)) : 0;
    t.dt_bias.push_back(static_cast<float>(spec.dt_bias_value.value_or(regime)));
  }
}

// The input whose activation is beta.
double raw_beta(const Problem& p, double beta) {
  if (p.allow_neg_eigval) beta /= 2;
  if (!p.beta_is_logit) return beta;
  return std::clamp(std::log(beta) - std::log1p(-beta), -100.0, 30.0);
}

Bytes make_beta(const Problem& p, std::int64_t tokens, const InputSpec& spec) {
  const Random random(spec.seed, kBeta);
  const int HV = p.value_heads;
  return rows_of(p.beta_type, rows_a_token(tokens, 1, spec), HV, [&](std::int64_t row, float* out) {
    if (p.beta_is_logit) normal_row(random, row, HV, out);
    for (int h = 0; h < HV; ++h) {
      if (spec.writes > 0 && row % 32 >= spec.writes)
        out[h] = static_cast<float>(raw_beta(p, 0.0));
      else if (spec.beta)
        out[h] = static_cast<float>(raw_beta(p, *spec.beta));
      else if (!p.beta_is_logit)
        out[h] = random.uniform(std::uint64_t(row) * HV + h);
    }
  });
}

Bytes make_normal(DType type, Rows rows, std::int64_t columns, double scale, const Random& random) {
  return rows_of(type, rows, columns, [&](std::int64_t row, float* out) {
    normal_row(random, row, columns, out);
    for (std::int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(scale * out[c]);
  });
}

std::vector<std::int64_t> draw_committed(const std::vector<std::int64_t>& cu_seqlens,
                                         const InputSpec& spec) {
  const Random random(spec.seed, kCommitted);
  std::vector<std::int64_t> out;
  for (std::size_t n = 0; n + 1 < cu_seqlens.size(); ++n) {
    const auto counts = static_cast<double>(cu_seqlens[n + 1] - cu_seqlens[n] + 1);
    out.push_back(spec.committed_tokens.value_or(
        static_cast<std::int64_t>(random.uniform(std::uint64_t(n)) * counts)));
  }
  return out;
}

}  // namespace

std::string to_text(const InputSpec& spec) {
  std::string text = fmt::format("gate={}", kGateNames[static_cast<int>(spec.gate)]);
  if (!is_regime(spec.gate)) text += fmt::format("({:g},{:g})", spec.gate_value, spec.gate_other);
  if (spec.gate == GatePattern::spike)
    text += fmt::format("@{}/{}", spec.gate_position, spec.gate_period);
  if (spec.keys != KeyPattern::random)
    text += fmt::format(" keys={}", kKeyNames[static_cast<int>(spec.keys)]);
  if (spec.beta) text += fmt::format(" beta={:g}", *spec.beta);
  if (spec.writes > 0) text += fmt::format(" writes={}/32", spec.writes);
  if (!spec.A_log) text += " no A_log";
  if (!spec.dt_bias) text += " no dt_bias";
  if (spec.A_log_value) text += fmt::format(" A_log={:g}", *spec.A_log_value);
  if (spec.dt_bias_value) text += fmt::format(" dt_bias={:g}", *spec.dt_bias_value);
  if (spec.v_scale != 1) text += fmt::format(" v_scale={:g}", spec.v_scale);
  if (spec.state_scale != 1) text += fmt::format(" state_scale={:g}", spec.state_scale);
  if (spec.row_norm) text += fmt::format(" row_norm={:g}", *spec.row_norm);
  if (spec.period > 0) text += fmt::format(" period={}", spec.period);
  if (spec.committed_tokens) text += fmt::format(" committed={}", *spec.committed_tokens);
  return text + fmt::format(" seed={}", spec.seed);
}

std::optional<GatePattern> gate_regime(std::string_view name) {
  for (const GatePattern gate : {GatePattern::strong, GatePattern::weak, GatePattern::mixed})
    if (name == kGateNames[static_cast<int>(gate)]) return gate;
  return std::nullopt;
}

Tensors make_tensors(const Problem& p, std::int64_t tokens,
                     const std::vector<std::int64_t>& cu_seqlens, const InputSpec& spec) {
  const std::int64_t N = static_cast<std::int64_t>(cu_seqlens.size()) - 1;
  const std::int64_t HV = p.value_heads;
  Tensors t;
  t.problem = p;
  t.tokens = tokens;
  t.cu_seqlens = cu_seqlens;
  make_gate_parameters(t, spec);
  t.q = make_q(p, tokens, spec);
  const Rows value_rows = rows_a_token(tokens, HV, spec);
  t.k = rows_of(p.qkv_type, rows_a_token(tokens, p.heads, spec), p.key_dim,
                [&](std::int64_t row, float* out) { key_row(p, spec, row, out); });
  t.v = make_normal(p.qkv_type, value_rows, p.value_dim, spec.v_scale, Random(spec.seed, kV));
  t.g = rows_of(p.gate_type, value_rows, p.key_dim,
                [&](std::int64_t row, float* out) { gate_row(t, spec, row, out); });
  t.beta = make_beta(p, tokens, spec);
  if (p.initial_state)
    t.initial_state =
        make_normal(p.state_type, {N * HV, N * HV}, std::int64_t{p.key_dim} * p.value_dim,
                    spec.state_scale, Random(spec.seed, kState));
  if (p.committed_tokens) t.committed_tokens = draw_committed(cu_seqlens, spec);
  return t;
}

Tensors make_tensors(const Problem& p, std::int64_t tokens, int sequences, const InputSpec& spec) {
  const std::vector<std::int64_t> lengths(sequences, tokens / sequences);
  return make_tensors(p, tokens, cu_seqlens_of(lengths), spec);
}

}  // namespace kda::reference
