// Inputs for tests, tuning and benchmarks, made from a seed: the same everywhere, over all cores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kda/kda.hpp"
#include "reference/tensors.hpp"

namespace kda::reference {

// The gate regimes of the cases (g ~ N(0, 1), A_log and dt_bias ~ U(0, 1), through the problem's
// gate; Gate::log_decay gets the bounded gate's values at -5), then patterns of the value of g:
// the log decay under Gate::log_decay, the raw gate otherwise.
enum class GatePattern {
  strong,       // mean log decay about -3 a token
  weak,         // dt_bias = -8: about -1e-3
  mixed,        // dt_bias = -8 on every second channel
  constant,     // gate_value everywhere
  by_token,     // gate_value and gate_other on even and odd tokens
  by_channel,   // the same on channels
  one_channel,  // gate_other on the middle channel of each head, gate_value on the others
  spike,        // gate_other on the tokens t % gate_period == gate_position, else gate_value
};

enum class KeyPattern {
  random,
  identical,    // one key a head for every token
  correlated,   // 0.95 of one key, 0.3 of a random one
  alternating,  // one key, its sign changing every token
  rank_two,     // a random direction in a plane
  zero,
  unnormalised,  // norms ~ U(0.25, 1.25) where the problem does not normalise
  overlong,      // as identical, but 1.4 long there
};

struct InputSpec {
  GatePattern gate = GatePattern::strong;
  double gate_value = 0, gate_other = 0;
  int gate_position = 0, gate_period = 64;
  KeyPattern keys = KeyPattern::random;
  std::optional<double> beta;  // after activation; none: logits ~ N(0, 1), probabilities ~ U(0, 1)
  std::int64_t writes = 0;  // tokens of every 32 that are written: beta of the others is 0; 0: all
  bool A_log = true, dt_bias = true;    // present, where the gate reads them
  std::optional<double> A_log_value;    // none: ~ U(0, 1)
  std::optional<double> dt_bias_value;  // none: as the gate pattern wants it
  double v_scale = 1, state_scale = 1;
  // Norm of rows of q and k where the problem normalises them; none: about sqrt(K).
  std::optional<double> row_norm;
  std::uint64_t seed = 1;
  std::int64_t period = 0;  // tokens after which q, k, v, g and beta repeat; 0: never
  // Of every sequence, where the problem has them; none: drawn from 0 to its length.
  std::optional<std::int64_t> committed_tokens;
};

// "gate=constant(-5) keys=random beta=0.5 ..."; only what differs from the default.
std::string to_text(const InputSpec& spec);

// "strong", "weak" or "mixed"; none otherwise.
std::optional<GatePattern> gate_regime(std::string_view name);

// problem is complete.  Rows of q and k have unit norm where the problem does not normalise them.
Tensors make_tensors(const Problem& problem, std::int64_t tokens,
                     const std::vector<std::int64_t>& cu_seqlens, const InputSpec& spec = {});

// Dense: sequences of tokens / sequences each.
Tensors make_tensors(const Problem& problem, std::int64_t tokens, int sequences,
                     const InputSpec& spec = {});

}  // namespace kda::reference
