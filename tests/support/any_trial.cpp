#include "support/any_trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "problem/problem.hpp"
#include "reference/inputs.hpp"
#include "strategy/table.hpp"

namespace kda::test {
namespace {

using reference::GatePattern;
using reference::InputSpec;
using reference::KeyPattern;

constexpr double kMostWork = 8e7;              // elements of states, times tokens
constexpr std::int64_t kMostStates = 4 << 20;  // elements of all that a pool keeps

// Whoever draws twice does so in two statements, so that all compilers draw alike.
template <class T>
T one_of(Dice& dice, std::initializer_list<T> all) {
  return all.begin()[dice.below(static_cast<int>(all.size()))];
}

bool in(Dice& dice, double share) { return dice.uniform() < share; }

// As likely 1 to 10 as 100 to 1000.
std::int64_t of_any_size(Dice& dice, double most) {
  return static_cast<std::int64_t>(std::exp(dice.uniform() * std::log(most)));
}

std::string text_of(const char* name, std::int64_t value) {
  return std::string(name) + "=" + std::to_string(value) + " ";
}

int any_dim(Dice& dice, int most) {
  return in(dice, 0.75) ? one_of(dice, {64, 128, 128, 128, 256}) : 1 + dice.below(most);
}

// Half of them what models have, which most strategies are for.
std::string any_words(Dice& dice) {
  const bool usual = in(dice, 0.5);
  const auto dim = [&](int most) {
    return usual ? one_of(dice, {64, 128, 128, 128, 192, 256}) : any_dim(dice, most);
  };
  const int values = dim(300);
  const int keys = dim(256);
  const int heads = one_of(dice, {1, 1, 2, 3, 4, 8, 16});
  const int group = one_of(dice, {1, 1, 1, 2, 3, 4, 8});
  std::string words = text_of("K", keys) + text_of("V", values) + text_of("H", heads) +
                      text_of("HV", heads * group);
  const auto add = [&](std::initializer_list<const char*> all) {
    words += one_of(dice, all) + std::string(" ");
  };
  add({"g=bf16", "g=bf16", "g=f32", "g=f16"});
  add({"beta=bf16", "beta=bf16", "beta=f32", "beta=f16"});
  add({"gate=bounded", "gate=bounded", "gate=bounded lower_bound=-1",
       "gate=bounded lower_bound=-0.01", "gate=bounded lower_bound=-20", "gate=softplus",
       "gate=log_decay", "gate=logsigmoid"});
  add({"state=f32", "state=f32", "state=bf16"});
  add({"layout=value_first", "layout=value_first", "layout=key_first"});
  if (usual) {
    add({"beta_logit=1", "beta_logit=1", "beta_logit=0", "beta_logit=0 beta_most_1=1"});
    add({"l2norm=1", "l2norm=1", "l2norm=0 qk_normalized=1"});
    return words;
  }
  add({"qkv=bf16", "qkv=f16", "qkv=f32"});
  add({"beta_logit=1", "beta_logit=1 neg_eigval=1", "beta_logit=0", "beta_logit=0 beta_most_1=1"});
  add({"l2norm=1", "l2norm=0", "l2norm=0 qk_normalized=1"});
  add({"", "", "scale=1", "scale=-0.3", "scale=0.004"});
  return words;
}

// Of `tokens` at most in all.
std::vector<std::int64_t> any_lengths(Dice& dice, double tokens) {
  std::vector<std::int64_t> out;
  const auto length = [&](double most) {
    return std::min(of_any_size(dice, most + 1), static_cast<std::int64_t>(most));
  };
  switch (dice.below(6)) {
    case 0:  // alike
      out.assign(static_cast<std::size_t>(1 + dice.below(6)), 0);
      std::fill(out.begin(), out.end(),
                std::max<std::int64_t>(1, length(tokens) / static_cast<std::int64_t>(out.size())));
      break;
    case 1:  // one, and long
      out.push_back(1 + static_cast<std::int64_t>(tokens * dice.uniform()));
      break;
    case 2:  // brief ones
      out.resize(static_cast<std::size_t>(20 + dice.below(200)));
      for (auto& each : out) each = dice.below(40);
      break;
    case 3:  // tokens beside something long
      out.assign(static_cast<std::size_t>(1 + dice.below(100)), 1);
      out[static_cast<std::size_t>(dice.below(static_cast<int>(out.size())))] = length(tokens);
      break;
    case 4:  // about whole chunks
      out.resize(static_cast<std::size_t>(1 + dice.below(9)));
      for (auto& each : out) {
        const int chunk = one_of(dice, {16, 32, 64});
        const int chunks = dice.below(9);
        each = std::max(0, chunk * chunks + one_of(dice, {-1, 0, 0, 1}));
      }
      break;
    default:
      out.resize(static_cast<std::size_t>(1 + dice.below(12)));
      for (auto& each : out) each = in(dice, 0.1) ? 0 : length(tokens / 2);
  }
  for (std::int64_t sum = 0; auto& each : out) {
    each = std::min(each, static_cast<std::int64_t>(tokens) - sum);
    sum += each;
  }
  if (std::accumulate(out.begin(), out.end(), std::int64_t{0}) == 0) out[0] = 1;
  return out;
}

// hard: keys and betas that a type's own rounding may take further off than is stated.
InputSpec any_inputs(Dice& dice, const Problem& p, bool hard) {
  InputSpec spec;
  spec.seed = static_cast<std::uint64_t>(1 + dice.below(1000000));
  spec.gate = one_of(
      dice, {GatePattern::strong, GatePattern::strong, GatePattern::weak, GatePattern::weak,
             GatePattern::mixed, GatePattern::mixed, GatePattern::constant, GatePattern::by_token,
             GatePattern::by_channel, GatePattern::one_channel, GatePattern::spike});
  const auto gate = [&] { return one_of(dice, {0.0, -0.01, -0.3, -1.0, -5.0, -50.0, -500.0}); };
  spec.gate_value = gate();
  spec.gate_other = gate();
  spec.gate_period = one_of(dice, {7, 16, 32, 64, 500});
  spec.gate_position = dice.below(spec.gate_period);

  const bool any_norm = !p.l2norm_qk && !p.qk_normalized;
  spec.keys = !hard ? KeyPattern::random
              : any_norm
                  ? one_of(dice, {KeyPattern::unnormalised, KeyPattern::overlong})
                  : one_of(dice, {KeyPattern::identical, KeyPattern::correlated,
                                  KeyPattern::alternating, KeyPattern::rank_two, KeyPattern::zero});
  // Keys longer than 1 with a beta past 1: the recurrence itself diverges.
  const bool past_one = spec.keys != KeyPattern::unnormalised && spec.keys != KeyPattern::overlong;
  if (in(dice, 0.4)) {
    // Tiny ones of keys that repeat come to nothing by chunks (rounding.md).
    spec.beta = one_of(dice, {hard ? 0.02 : 1e-4, 0.1, 0.5, 0.9});
    if (!p.beta_is_logit && in(dice, 0.3)) spec.beta = one_of(dice, {0.0, 1.0});
    if (!p.beta_is_logit && !p.beta_at_most_one && past_one && hard && in(dice, 0.3))
      spec.beta = one_of(dice, {1.9, 2.0});
  } else if (p.allow_neg_eigval && !past_one) {
    spec.beta = 0.5;
  }
  if (in(dice, 0.1)) spec.writes = 1 + dice.below(32);
  spec.A_log = in(dice, 0.8);
  spec.dt_bias = in(dice, 0.8);
  if (in(dice, 0.2)) spec.v_scale = one_of(dice, {1e-3, 30.0, 1e3});
  if (in(dice, 0.2)) spec.state_scale = one_of(dice, {1e-3, 30.0, 1e3});
  if (p.l2norm_qk && in(dice, 0.2)) spec.row_norm = one_of(dice, {1e-3, 0.1, 40.0});
  return spec;
}

double most_tokens(const Problem& p) {
  const double states = static_cast<double>(p.value_heads) * p.key_dim * p.value_dim;
  return std::clamp(kMostWork / states, 1.0, 5000.0);
}

Problem parsed(const std::string& words) {
  const auto problem = problem::parse(words);
  if (!problem) throw std::runtime_error(problem.status().message());
  return *problem;
}

void place_anywhere(Dice& dice, Trial& one) {
  if (in(dice, 0.4))
    one.layout = one_of(dice, {Layout::heads_first, Layout::sliced, Layout::gapped});
  if (in(dice, 0.2)) one.misaligned = one_of(dice, {1, 2, 8});
  if (in(dice, 0.1)) one.misaligned_o = one_of(dice, {1, 4});
  // Plans for more than they run.
  if (in(dice, 0.3)) one.problem.max_tokens = one.tokens() + of_any_size(dice, 20000);
  if (in(dice, 0.2) && one.problem.varlen)
    one.problem.max_sequences = static_cast<int>(one.lengths.size()) + dice.below(300);
}

bool alike(const std::vector<std::int64_t>& lengths) {
  return std::equal(lengths.begin() + 1, lengths.end(), lengths.begin());
}

}  // namespace

Trial any_trial(Dice& dice) {
  std::string words = any_words(dice);
  words += one_of(dice, {"h0=1 ht=1 ", "h0=1 ht=1 ", "h0=0 ht=1 ", "h0=1 ht=0 ", "h0=0 ht=0 "});
  Trial out;
  out.problem = parsed(words);
  out.lengths = any_lengths(dice, most_tokens(out.problem));
  if (!alike(out.lengths) || in(dice, 0.4)) {
    words += one_of(dice, {"varlen=1 ", "varlen=1 cu_seqlens=i32 "});
    if (in(dice, 0.3)) words += "mixed=1 ";
    if (in(dice, 0.2)) out.tail = 1 + dice.below(100);
  }
  if (out.problem.final_state && in(dice, 0.1))
    words += one_of(dice, {"committed=1 ", "committed=1 slots=i32 "});
  out.problem = parsed(words);
  const bool hard = in(dice, 0.4);
  out.inputs = any_inputs(dice, out.problem, hard);
  // Of these the most that has been seen is 1.25 times what is allowed (rounding.md).
  if (hard) out.o_allowance = out.state_allowance = 1.4;
  out.in_place_state = out.problem.initial_state && out.problem.final_state && in(dice, 0.3);
  place_anywhere(dice, out);
  return out;
}

PoolTrial any_pool_trial(Dice& dice) {
  std::string words = "pool=1 " + any_words(dice);
  words += one_of(dice, {"zero_padding=0 ", "zero_padding=1 "});
  words += one_of(dice, {"slots=i32 ", "slots=i64 "});
  const int kind = dice.below(4);  // decodes, drafts, checkpoints, prefill
  words += kind == 3 ? one_of(dice, {"h0=1 ht=1 ", "h0=1 ht=0 ", "h0=0 ht=1 "}) : "h0=1 ht=1 ";
  PoolTrial out;
  SlotsSpec spec;
  const Problem shape = parsed(words);
  const double tokens = most_tokens(shape);
  auto& lengths = out.trial.lengths;
  if (kind < 2) {
    const int most = kind == 0 && in(dice, 0.6) ? 1 : 1 + dice.below(8);
    const auto room = std::min<std::int64_t>(kMostStates / problem::slot_elements(shape) / most,
                                             static_cast<std::int64_t>(tokens) / most);
    lengths.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(
                       of_any_size(dice, 600), 1, std::max<std::int64_t>(1, room))),
                   most);
    if (in(dice, 0.5))
      for (auto& each : lengths) each = dice.below(most + 1);
    if (std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) == 0) lengths[0] = 1;
    if (kind == 1) {
      words += "drafts=1 ";
      spec.columns = most + dice.below(2);
      spec.accepted = in(dice, 0.7);
    }
  } else {
    lengths = any_lengths(dice, tokens);
    const auto room = static_cast<std::size_t>(
        std::max<std::int64_t>(1, kMostStates / problem::slot_elements(shape)));
    if (lengths.size() > room) lengths.resize(room);
    if (std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) == 0) lengths[0] = 1;
  }
  if (kind == 2) {
    const int every = one_of(dice, {64, 64, 64, 80, 96, 100, 128, 192, 256, 1000});
    const auto longest = *std::max_element(lengths.begin(), lengths.end());
    words += text_of("checkpoint", every);
    const std::int64_t room =
        kMostStates / problem::slot_elements(shape) / static_cast<std::int64_t>(lengths.size());
    spec.checkpoint_columns = static_cast<int>(std::clamp<std::int64_t>(
        longest / every + dice.below(2), 1, std::max<std::int64_t>(1, room)));
  }
  if (!alike(lengths) || in(dice, 0.4)) {
    words += one_of(dice, {"varlen=1 ", "varlen=1 cu_seqlens=i32 "});
    if (in(dice, 0.3)) words += "mixed=1 ";
  }
  if (kind != 1 && kind != 2 && shape.final_state && in(dice, 0.15)) words += "committed=1 ";
  spec.sequences = static_cast<int>(lengths.size());
  spec.prefixes = shape.initial_state && in(dice, 0.5);
  spec.seed = static_cast<std::uint64_t>(dice.below(1000000));
  out.trial.problem = parsed(words);
  out.trial.inputs = any_inputs(dice, out.trial.problem, false);
  place_anywhere(dice, out.trial);
  out.slots = make_slots(spec);
  if (in(dice, 0.3)) out.gap = one_of(dice, {3, 5, 64});
  if (in(dice, 0.3)) out.row_gap = 1 + dice.below(3);
  out.apart = shape.final_state && in(dice, 0.15);
  return out;
}

Variant any_tuning(Dice& dice) {
  const auto rows = strategy::table();
  const strategy::Strategy& row =
      *rows[static_cast<std::size_t>(dice.below(static_cast<int>(rows.size())))];
  Variant out{row.name, ""};
  for (const tunable::Row& tunable : row.space()) {
    if (tunable.values.size() < 2 || in(dice, 0.6)) continue;
    const auto at = static_cast<std::size_t>(dice.below(static_cast<int>(tunable.values.size())));
    out.tuning +=
        (out.tuning.empty() ? "" : " ") + tunable.name + "=" + std::to_string(tunable.values[at]);
  }
  return out;
}

}  // namespace kda::test
