#include "cli/subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/presets.hpp"
#include "cli/words.hpp"
#include "problem/problem.hpp"
#include "reference/dtype.hpp"
#include "reference/inputs.hpp"
#include "reference/tensors.hpp"
#include "tune/small_problem.hpp"

namespace kda::cli {
namespace {

using Lengths = std::vector<std::int64_t>;

constexpr std::int64_t kMostSequences = 1 << 20;  // of seqlens

// A text taken apart: an optional case or model, words of kda::Problem, and the words of our own.
struct Parts {
  const reference::Case* row = nullptr;
  const Preset* preset = nullptr;
  std::string words;
  std::optional<std::string> regime, seqlens, tp;

  std::string name() const { return row != nullptr ? row->name : preset ? preset->name : ""; }
};

// Longer spellings of the problem's letters.
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
    {"tokens", "T"},       {"sequences", "N"}, {"heads", "H"},
    {"value_heads", "HV"}, {"key_dim", "K"},   {"value_dim", "V"}};

std::string with_short_names(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : base::words(text)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto* found = std::find_if(std::begin(kLongNames), std::end(kLongNames), [&](auto& each) {
      return each.first == word.substr(0, equals);
    });
    const bool is_long = equals < word.size() && found != std::end(kLongNames);
    words.push_back(std::string(is_long ? found->second : word.substr(0, equals)) +
                    std::string(word.substr(equals)));
  }
  return base::join(words, " ");
}

Status wrong(std::string message) { return {Code::invalid_argument, std::move(message)}; }

std::string known_cases() {
  std::string names;
  for (const reference::Case& row : reference::cases()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

std::string known_models() {
  std::string names;
  for (const Preset& row : presets()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

Result<Parts> take_apart(const std::string& text) {
  Parts parts;
  for (const std::string_view word : base::words(text)) {
    if (word.find('=') != std::string_view::npos) {
      parts.words += fmt::format("{}{}", parts.words.empty() ? "" : " ", word);
      continue;
    }
    const reference::Case* row = reference::find_case(word);
    const Preset* preset = find_preset(word);
    if (row == nullptr && preset == nullptr) {
      return wrong(
          fmt::format("there is no case \"{}\"; there are {}, the models {}, and problems in words "
                      "such as \"T=8192 H=64 gate_regime=weak\"",
                      word, known_cases(), known_models()));
    }
    if (!parts.name().empty()) return wrong(fmt::format("\"{}\" names two cases", text));
    parts.row = row;
    parts.preset = preset;
  }
  for (const char* name : {"tp", "gate_regime", "seqlens"}) {
    std::string rest = parts.words;
    if (take(rest, name) && take(rest, name)) {
      return wrong(fmt::format("{} is given twice in \"{}\"", name, text));
    }
  }
  parts.tp = take(parts.words, "tp");
  if (parts.tp && parts.preset == nullptr) {
    return wrong(fmt::format("tp splits the heads of a model; \"{}\" names none of {}", text,
                             known_models()));
  }
  parts.regime = take(parts.words, "gate_regime");
  parts.seqlens = take(parts.words, "seqlens");
  if (parts.regime && !reference::gate_regime(*parts.regime)) {
    return wrong(
        fmt::format("gate_regime is \"{}\"; known are strong, weak, mixed", *parts.regime));
  }
  return parts;
}

bool names(const std::string& words, std::string_view name) {
  std::string copy = words;
  return take(copy, name).has_value();
}

// The base that the words change: what follows from a changed word is left to problem::complete.
Result<Problem> base_of(const Parts& parts) {
  Problem base;
  base.initial_state = true;
  base.final_state = true;
  if (parts.row != nullptr) base = reference::problem_of(*parts.row);
  if (parts.preset != nullptr) {
    const std::optional<std::int64_t> tp = base::parse_integer(parts.tp.value_or("1"));
    if (!tp || *tp < 1 || *tp > parts.preset->heads) {
      return wrong(fmt::format("tp is \"{}\"; it wants a number that divides the {} heads of {}",
                               *parts.tp, parts.preset->heads, parts.preset->name));
    }
    const Result<Problem> share = problem_of(*parts.preset, static_cast<int>(*tp));
    if (!share) return share.status();
    base = *share;
  }
  if (names(parts.words, "H")) base.value_heads = 0;
  base.scale = 0;
  return base;
}

// Its lengths; their sum is one that an integer holds.
Result<Lengths> parse_lengths(const std::string& text) {
  Lengths lengths;
  std::int64_t left = std::numeric_limits<std::int64_t>::max();  // tokens that may still come
  for (const std::string_view item : base::split(text, ',')) {
    const auto parts = base::split(item, 'x');
    const std::optional<std::int64_t> length = base::parse_integer(parts.back());
    const std::optional<std::int64_t> count =
        parts.size() == 2 ? base::parse_integer(parts.front()) : std::optional<std::int64_t>(1);
    if (parts.size() > 2 || !length || *length < 0 || !count || *count < 1) {
      return wrong(fmt::format(
          "seqlens has \"{}\"; it wants token counts such as 1300,547,2048 or 256x1,8192", item));
    }
    if (*count > kMostSequences - std::ssize(lengths)) {
      return wrong(
          fmt::format("seqlens has more than {} sequences with \"{}\"; at most so many will do",
                      kMostSequences, item));
    }
    if (*length > left / *count) {
      return wrong(
          fmt::format("seqlens add up to more than {} tokens with \"{}\"; at most so many will do",
                      std::numeric_limits<std::int64_t>::max(), item));
    }
    left -= *count * *length;
    lengths.insert(lengths.end(), static_cast<std::size_t>(*count), *length);
  }
  return lengths;
}

// What seqlens set, the words may say too, but nothing else.
Status check_lengths(const std::string& words, const Problem& problem, std::int64_t tokens,
                     std::int64_t sequences) {
  if (names(words, "T") && problem.max_tokens != tokens) {
    return wrong(fmt::format("T is {}, but seqlens add up to {}", problem.max_tokens, tokens));
  }
  if (names(words, "N") && problem.max_sequences != sequences) {
    return wrong(
        fmt::format("N is {}, but seqlens are {} sequences", problem.max_sequences, sequences));
  }
  if (names(words, "varlen") && !problem.varlen) {
    return wrong("varlen is 0, but seqlens pack sequences; without seqlens all are equally long");
  }
  return {};
}

Result<Subject> subject_of(const Parts& parts, const std::string& regime) {
  const Result<Problem> base = base_of(parts);
  if (!base) return base.status();
  Result<Problem> parsed = problem::parse(parts.words, *base);
  if (!parsed) {
    std::string why = parsed.status().message();
    // The words that there are: a problem's own, and those of these tools.
    if (why.find("there is no word") != std::string::npos) why += "; and gate_regime, seqlens, tp";
    return Status(parsed.status().code(), std::move(why));
  }
  Problem problem = *parsed;
  Lengths lengths;
  if (parts.seqlens) {
    const Result<Lengths> given = parse_lengths(*parts.seqlens);
    if (!given) return given.status();
    lengths = *given;
    const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    if (Status status = check_lengths(parts.words, problem, sum, std::ssize(lengths)); !status) {
      return status;
    }
    problem.varlen = true;
    problem.max_tokens = sum;
    problem.max_sequences = static_cast<int>(lengths.size());
  }
  Result<Problem> complete = problem::complete(problem);
  if (!complete) return complete.status();
  if (complete->max_tokens == 0) return wrong("T is 0; a benchmark wants T=8192 or so");
  if (lengths.empty()) {
    const bool own_lengths =
        parts.row != nullptr && !names(parts.words, "T") && !names(parts.words, "N");
    lengths = tune::usual_lengths(*complete);
    if (own_lengths && parts.row->lengths != nullptr) {
      lengths.assign(parts.row->lengths, parts.row->lengths + parts.row->sequences);
    }
  }
  if (!complete->varlen && complete->max_tokens % complete->max_sequences != 0) {
    return wrong(fmt::format("N is {}, which does not divide T = {}; varlen=1 packs unequal ones",
                             complete->max_sequences, complete->max_tokens));
  }
  Subject subject;
  subject.problem = *std::move(complete);
  subject.cu_seqlens = reference::cu_seqlens_of(lengths);
  subject.regime = regime;
  if (parts.row != nullptr && parts.words.empty() && !parts.seqlens) subject.peers = parts.row;
  subject.name = parts.name();
  if (parts.tp) subject.name += " tp=" + *parts.tp;
  if (!parts.words.empty()) subject.name += (subject.name.empty() ? "" : " ") + parts.words;
  if (parts.seqlens) subject.name += " seqlens=" + *parts.seqlens;
  return subject;
}

// Lists expanded; a model of which nothing says what it runs, with each of its usual runs.
Result<std::vector<std::string>> texts_of(const std::string& text) {
  Result<std::vector<std::string>> spelt = expand(with_short_names(text), {"seqlens"});
  if (!spelt) return spelt;
  std::vector<std::string> texts;
  for (const std::string& words : *spelt) {
    const std::vector<std::string_view> pieces = base::words(words);
    const bool is_model = std::any_of(pieces.begin(), pieces.end(), [](std::string_view word) {
      return find_preset(word) != nullptr;
    });
    if (!is_model || names(words, "T") || names(words, "N") || names(words, "seqlens")) {
      texts.push_back(words);
      continue;
    }
    for (const char* run : usual_runs()) {
      Result<std::vector<std::string>> runs = expand(run);
      if (!runs) return runs;
      for (const std::string& each : *runs) texts.push_back(words + " " + each);
    }
  }
  return texts;
}

}  // namespace

std::vector<std::string> group_words(const std::vector<std::string>& arguments) {
  std::vector<std::string> groups;
  bool open = false;  // the last group may take further words
  for (const std::string& argument : arguments) {
    const bool phrase = argument.find_first_of(" \t\n") != std::string::npos;
    const bool word = !phrase && argument.find('=') != std::string::npos;
    if (word && open) {
      groups.back() += " " + argument;
    } else {
      groups.push_back(argument);
    }
    open = !phrase;
  }
  return groups;
}

Result<std::vector<Subject>> subjects_of(const std::string& text,
                                         const std::vector<std::string>& regimes) {
  std::vector<Subject> subjects;
  const Result<std::vector<std::string>> texts = texts_of(text);
  if (!texts) return texts.status();
  for (const std::string& words : *texts) {
    const Result<Parts> parts = take_apart(words);
    if (!parts) return parts.status();
    std::vector<std::string> wanted = regimes;
    if (parts->regime) wanted = {*parts->regime};
    if (wanted.empty()) wanted = {"strong"};
    for (const std::string& regime : wanted) {
      const Result<Subject> subject = subject_of(*parts, regime);
      if (!subject) return subject.status();
      subjects.push_back(*subject);
    }
  }
  return subjects;
}

Result<std::vector<std::string>> with_tp(std::vector<std::string> groups, int tp) {
  bool any = false;
  for (std::string& group : groups) {
    for (const std::string_view word : base::words(group)) {
      if (find_preset(word) == nullptr) continue;
      group += fmt::format(" tp={}", tp);
      any = true;
      break;
    }
  }
  if (any) return groups;
  return wrong(
      fmt::format("--tp {} splits the heads of a model; name one of {}", tp, known_models()));
}

double floor_bytes(const Problem& problem) {
  const auto bytes = [](DType type) { return static_cast<double>(reference::bytes_of(type)); };
  const auto T = static_cast<double>(problem.max_tokens);
  const double H = problem.heads, HV = problem.value_heads;
  const double K = problem.key_dim, V = problem.value_dim, N = problem.max_sequences;
  const double written = problem.draft_states            ? T / N
                         : problem.checkpoint_tokens > 0 ? 1 + T / N / problem.checkpoint_tokens
                                                         : 1;
  const double states = (problem.initial_state ? 1 : 0) + (problem.final_state ? written : 0);
  const double chunk = std::max(problem.wy_chunk, 1);
  const double wy = problem.wy_chunk > 0 ? N * std::ceil(T / N / chunk) * chunk * HV * (K + V) : 0;
  return bytes(problem.qkv_type) * (T * (2 * H * K + 2 * HV * V) + wy) +
         T * HV * (bytes(problem.gate_type) * K + bytes(problem.beta_type)) +
         states * N * HV * K * V * bytes(problem.state_type);
}

}  // namespace kda::cli
