// Problem to words and back: one row a field, in the order printed.
#include "base/text.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "problem/problem.hpp"

namespace kda::problem {

namespace {

// An enum's words, in the order of its enumerators.
template <class Enum>
constexpr std::string_view words_of;
template <>
constexpr std::string_view words_of<DType> = "f32|bf16|f16";
template <>
constexpr std::string_view words_of<Index> = "i32|i64";
template <>
constexpr std::string_view words_of<Gate> = "log_decay|softplus|bounded|logsigmoid";
template <>
constexpr std::string_view words_of<StateLayout> = "key_first|value_first";

template <class Value>
std::string print(Value value) {
  if constexpr (std::is_enum_v<Value>) {
    const auto words = base::split(words_of<Value>, '|');
    const auto at = static_cast<std::size_t>(value);
    return at < words.size() ? std::string(words[at]) : fmt::format("{}", at);
  } else if constexpr (std::is_same_v<Value, bool>) {
    return value ? "1" : "0";
  } else {
    return fmt::format("{}", value);
  }
}

// An integer, though one that no type of ours may hold.
bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Empty on success, else what would do.
template <class Value>
std::string parse_into(Value& value, std::string_view text) {
  if constexpr (std::is_enum_v<Value>) {
    const auto words = base::split(words_of<Value>, '|');
    for (std::size_t at = 0; at < words.size(); ++at) {
      if (words[at] == text) {
        value = static_cast<Value>(at);
        return {};
      }
    }
    return std::string(words_of<Value>);
  } else if constexpr (std::is_same_v<Value, bool>) {
    const auto on = base::parse_switch(text);
    if (!on) return "0|1";
    value = *on;
    return {};
  } else if constexpr (std::is_same_v<Value, float>) {
    const auto number = base::parse_number(text);
    if (!number) return "a number";
    value = static_cast<float>(*number);
    return {};
  } else {
    const auto number = base::parse_integer(text);
    if (!number && !is_whole(text)) return "an integer";
    if (!number || !std::in_range<Value>(*number)) {
      return fmt::format("in the range {}..{}", std::numeric_limits<Value>::min(),
                         std::numeric_limits<Value>::max());
    }
    value = static_cast<Value>(*number);
    return {};
  }
}

struct Word {
  const char* name;
  std::string (*print)(const Problem&);
  std::string (*parse)(Problem&, std::string_view);
  std::string_view choices;  // of an enum
  const char* meaning;
  bool is_rare;  // printed only where it is not the default
};

template <auto Field>
constexpr Word word(const char* name, const char* meaning, bool is_rare = false) {
  using Value = std::remove_reference_t<decltype(std::declval<Problem&>().*Field)>;
  std::string_view choices;
  if constexpr (std::is_enum_v<Value>) choices = words_of<Value>;
  return {name,
          [](const Problem& p) { return print(p.*Field); },
          [](Problem& p, std::string_view text) { return parse_into(p.*Field, text); },
          choices,
          meaning,
          is_rare};
}
template <auto Field>
constexpr Word rare(const char* name, const char* meaning) {
  return word<Field>(name, meaning, true);
}

constexpr Word kWords[] = {
    word<&Problem::max_tokens>("T", "tokens of a run over all sequences, at most"),
    word<&Problem::max_sequences>("N", "sequences of a run, at most"),
    word<&Problem::heads>("H", "query and key heads"),
    word<&Problem::value_heads>("HV", "value heads, a multiple of H; 0: H"),
    word<&Problem::key_dim>("K", "key channels of a head"),
    word<&Problem::value_dim>("V", "value channels of a head"),
    word<&Problem::varlen>("varlen", "1: sequences are packed, cu_seqlens says how"),
    word<&Problem::cu_seqlens_type>("cu_seqlens", "its type"),
    word<&Problem::qkv_type>("qkv", "the type of q, k, v and o"),
    word<&Problem::gate_type>("g", "the type of g"),
    word<&Problem::beta_type>("beta", "the type of beta"),
    word<&Problem::state_type>("state", "the type of states; not f16"),
    word<&Problem::gate>("gate", "how g becomes log decays"),
    word<&Problem::lower_bound>("lower_bound", "of gate=bounded, a token"),
    word<&Problem::beta_is_logit>("beta_logit", "1: beta is given before its sigmoid"),
    word<&Problem::allow_neg_eigval>("neg_eigval", "1: beta is doubled, up to 2"),
    word<&Problem::l2norm_qk>("l2norm", "1: rows of q and k are normalised"),
    word<&Problem::scale>("scale", "multiplies q; 0: 1 / sqrt(K)"),
    word<&Problem::state_layout>("layout", "states as [K, V] or as [V, K]"),
    word<&Problem::initial_state>("h0", "1: initial states are given"),
    word<&Problem::final_state>("ht", "1: final states are written"),
    rare<&Problem::state_pool>("pool", "states lie in slots of a pool, named by index"),
    rare<&Problem::slot_index_type>("slots", "the type of these indices and of committed counts"),
    rare<&Problem::draft_states>("drafts", "a pool keeps the state after every token"),
    rare<&Problem::checkpoint_tokens>(
        "checkpoint", "a pool keeps the state after each so many tokens, 64 or more"),
    rare<&Problem::zero_padding>("zero_padding", "outputs of a pool's padding become zero"),
    rare<&Problem::mixed_lengths>(
        "mixed", "varlen: a few tokens beside long sequences, or one has most of the tokens"),
    rare<&Problem::wy_chunk>("wy", "w and u too, of chunks of 16, 32 or 64 tokens"),
    rare<&Problem::committed_tokens>("committed",
                                     "the final state is the one after so many first tokens"),
    rare<&Problem::beta_at_most_one>("beta_most_1", "a promise for beta_logit=0: beta is in 0..1"),
    rare<&Problem::qk_normalized>("qk_normalized", "a promise for l2norm=0: q and k come so"),
};

std::string known_words() {
  std::string names;
  for (const Word& each : kWords) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

}  // namespace

std::string to_text(const Problem& problem) {
  std::string text;
  for (const Word& each : kWords) {
    if (each.is_rare && each.print(problem) == each.print(Problem{})) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", each.name, each.print(problem));
  }
  return text;
}

std::string explain_words(const Problem& defaults) {
  std::string lines;
  for (const Word& each : kWords) {
    const std::string setting = fmt::format("{}={}", each.name, each.print(defaults));
    lines += fmt::format("  {:<20}{}{}{}\n", setting, each.choices,
                         each.choices.empty() ? "" : ": ", each.meaning);
  }
  return lines;
}

Result<Problem> parse(std::string_view text, const Problem& start) {
  const Result<std::vector<base::Setting>> settings = base::parse_settings(text);
  if (!settings) return settings.status();
  Problem problem = start;
  for (const auto& [name, value] : *settings) {
    const Word* found = nullptr;
    for (const Word& each : kWords) {
      if (name == each.name) found = &each;
    }
    if (found == nullptr) {
      return Status(
          Code::invalid_argument,
          fmt::format("problem: there is no word '{}'; there are {}", name, known_words()));
    }
    if (const std::string wanted = found->parse(problem, value); !wanted.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("problem: {} = '{}' is not {}", name, value, wanted));
    }
  }
  return problem;
}

}  // namespace kda::problem
