#include "support/spans.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "reference/dtype.hpp"
#include "reference/inputs.hpp"
#include "support/dice.hpp"

namespace kda::test {

using reference::Bytes;

namespace {

// Rows of q, or of k: one direction, the same with its sign changing every token, or any.
enum class Rows { one, alternating, random };
constexpr std::array<Rows, 3> kRows = {Rows::one, Rows::alternating, Rows::random};

struct Span {
  int tokens;
  double gate, other;        // log decays
  std::vector<bool> others;  // channels whose gate is `other`
  Rows keys, queries;
  std::vector<double> key, query;
  double beta;  // below 0: random
  double v_scale;
  int v_column;  // below 0: all
};

// Of one channel, or of all.
std::vector<double> direction(Dice& dice, int dim) {
  if (dice.below(2) == 0) return dice.direction(dim);
  std::vector<double> out(static_cast<std::size_t>(dim), 0.0);
  out[static_cast<std::size_t>(dice.below(dim))] = 1;
  return out;
}

// None, one, every second one, half of them, all.
std::vector<bool> channels(Dice& dice, int dim) {
  std::vector<bool> out(static_cast<std::size_t>(dim));
  const int kind = dice.below(5), first = dice.below(dim);
  for (int c = 0; c < dim; ++c) {
    const bool drawn = dice.below(2) == 0;
    const bool is_in[] = {false, c == first, c % 2 == first % 2, drawn, true};
    out[static_cast<std::size_t>(c)] = is_in[kind];
  }
  return out;
}

Span span_of(Dice& dice, int K, int V) {
  constexpr std::array<int, 14> kTokens = {1, 2, 3, 15, 16, 17, 31, 32, 40, 64, 100, 200, 400, 800};
  constexpr std::array<double, 8> kGates = {0, 0, 0, 0, -1e-3, -1e-2, -0.3, -5};
  constexpr std::array<double, 6> kOthers = {0, -1e-3, -0.1, -1, -5, -5};
  constexpr std::array<double, 6> kBetas = {0, 1e-3, 0.5, 1, 1, -1};
  constexpr std::array<double, 8> kScales = {1, 1, 1, 1, 0x1p-12, 0x1p-24, 0x1p12, 0};
  Span span;
  span.tokens = dice.one_of(kTokens);
  span.gate = dice.one_of(kGates);
  span.other = dice.one_of(kOthers);
  span.others = channels(dice, K);
  span.keys = dice.one_of(kRows);
  span.queries = dice.one_of(kRows);
  span.key = direction(dice, K);
  span.query = dice.below(3) == 0 ? span.key : direction(dice, K);
  span.beta = dice.one_of(kBetas);
  span.v_scale = dice.one_of(kScales);
  span.v_column = dice.below(3) == 0 ? dice.below(V) : -1;
  // Few tokens of gates that close leave something of what was before.
  if (span.gate == -5 && span.tokens > 3) span.gate = 0;
  return span;
}

// The value of g whose log decay that is.
double raw_gate(const Problem& p, double log_decay) {
  if (p.gate == Gate::log_decay) return log_decay;
  if (log_decay == 0) return -100;
  const double share = log_decay / p.lower_bound;
  return share >= 1 ? 32 : std::log(share / (1 - share));
}

class Head {
 public:
  Head(const Problem& p, reference::Tensors& to, int head, std::uint64_t seed)
      : p_(p), to_(to), head_(head), dice_(seed, static_cast<std::uint64_t>(head)) {}

  void fill() {
    for (std::int64_t t = 0; t < to_.tokens;) {
      const Span span = span_of(dice_, p_.key_dim, p_.value_dim);
      const std::int64_t end = std::min(to_.tokens, t + span.tokens);
      for (; t < end; ++t) token(span, t);
    }
  }

 private:
  void token(const Span& span, std::int64_t t) {
    const std::int64_t row = t * p_.value_heads + head_;
    unit(to_.q, row, span.queries, span.query);
    unit(to_.k, row, span.keys, span.key);
    for (int c = 0; c < p_.key_dim; ++c) {
      const bool other = span.others[static_cast<std::size_t>(c)];
      store(p_.gate_type, to_.g, row * p_.key_dim + c,
            raw_gate(p_, other ? span.other : span.gate));
    }
    for (int c = 0; c < p_.value_dim; ++c) {
      const bool is_in = span.v_column < 0 || span.v_column == c;
      store(p_.qkv_type, to_.v, row * p_.value_dim + c, is_in ? dice_.normal() * span.v_scale : 0);
    }
    store(p_.beta_type, to_.beta, row, span.beta < 0 ? dice_.uniform() : span.beta);
  }

  void unit(Bytes& to, std::int64_t row, Rows rows, const std::vector<double>& direction) {
    const std::vector<double> any =
        rows == Rows::random ? dice_.direction(p_.key_dim) : std::vector<double>();
    const double sign = rows == Rows::alternating && row / p_.value_heads % 2 != 0 ? -1 : 1;
    const std::vector<double>& x = any.empty() ? direction : any;
    for (int c = 0; c < p_.key_dim; ++c)
      store(p_.qkv_type, to, row * p_.key_dim + c, sign * x[static_cast<std::size_t>(c)]);
  }

  static void store(DType type, Bytes& to, std::int64_t at, double x) {
    reference::store(type, to.data(), static_cast<std::size_t>(at), x);
  }

  const Problem& p_;
  reference::Tensors& to_;
  int head_;
  Dice dice_;
};

}  // namespace

reference::Tensors spans(const Trial& trial, std::uint64_t seed) {
  const Problem& p = trial.problem;
  reference::Tensors out = reference::make_tensors(
      p, trial.tokens(), reference::cu_seqlens_of(trial.lengths), trial.inputs);
  std::fill(out.A_log.begin(), out.A_log.end(), 0.0F);
  std::fill(out.dt_bias.begin(), out.dt_bias.end(), 0.0F);
  for (int head = 0; head < p.value_heads; ++head) Head(p, out, head, seed).fill();
  return out;
}

}  // namespace kda::test
