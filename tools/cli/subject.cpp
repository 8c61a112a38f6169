#include "cli/subject.hpp"

#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/words.hpp"
#include "problem/problem.hpp"
#include "reference/dtype.hpp"
#include "reference/inputs.hpp"
#include "reference/tensors.hpp"

namespace kda::cli {
namespace {

using Lengths = std::vector<std::int64_t>;

// A text taken apart: an optional case, words of kda::Problem, and the two words of our own.
struct Parts {
  const reference::Case* row = nullptr;
  std::string words;
  std::optional<std::string> regime, seqlens;
};

Status wrong(std::string message) { return {Code::invalid_argument, std::move(message)}; }

std::string known_cases() {
  std::string names;
  for (const reference::Case& row : reference::cases()) {
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
    if (row == nullptr) {
      return wrong(
          fmt::format("there is no case \"{}\"; there are {}, and problems in words such as "
                      "\"T=8192 H=64 gate_regime=weak\"",
                      word, known_cases()));
    }
    if (parts.row != nullptr) return wrong(fmt::format("\"{}\" names two cases", text));
    parts.row = row;
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
Problem base_of(const Parts& parts) {
  Problem base;
  base.initial_state = true;
  base.final_state = true;
  if (parts.row != nullptr) base = reference::problem_of(*parts.row);
  if (names(parts.words, "H")) base.value_heads = 0;
  base.scale = 0;
  return base;
}

Result<Lengths> parse_lengths(const std::string& text) {
  Lengths lengths;
  for (const std::string_view item : base::split(text, ',')) {
    const auto parts = base::split(item, 'x');
    const std::optional<std::int64_t> length = base::parse_integer(parts.back());
    const std::optional<std::int64_t> count =
        parts.size() == 2 ? base::parse_integer(parts.front()) : std::optional<std::int64_t>(1);
    if (parts.size() > 2 || !length || *length < 0 || !count || *count < 1 || *count > 1 << 20) {
      return wrong(fmt::format(
          "seqlens has \"{}\"; it wants token counts such as 1300,547,2048 or 256x1,8192", item));
    }
    lengths.insert(lengths.end(), static_cast<std::size_t>(*count), *length);
  }
  return lengths;
}

// As even as can be.
Lengths even_lengths(std::int64_t tokens, int sequences) {
  Lengths lengths(static_cast<std::size_t>(sequences), tokens / sequences);
  for (std::int64_t i = 0; i < tokens % sequences; ++i) ++lengths[static_cast<std::size_t>(i)];
  return lengths;
}

Result<Subject> subject_of(const Parts& parts, const std::string& regime) {
  Result<Problem> parsed = problem::parse(parts.words, base_of(parts));
  if (!parsed) {
    return Status(parsed.status().code(), parsed.status().message() + "; and gate_regime, seqlens");
  }
  Problem problem = *parsed;
  Lengths lengths;
  if (parts.seqlens) {
    const Result<Lengths> given = parse_lengths(*parts.seqlens);
    if (!given) return given.status();
    lengths = *given;
    const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    if (names(parts.words, "T") && problem.max_tokens != sum) {
      return wrong(fmt::format("T is {}, but seqlens add up to {}", problem.max_tokens, sum));
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
    lengths = even_lengths(complete->max_tokens, complete->max_sequences);
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
  subject.name = parts.row != nullptr ? parts.row->name : "";
  if (!parts.words.empty()) subject.name += (subject.name.empty() ? "" : " ") + parts.words;
  if (parts.seqlens) subject.name += " seqlens=" + *parts.seqlens;
  return subject;
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
  for (const std::string& words : expand(text, {"seqlens"})) {
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

std::vector<Subject> suite(const std::vector<std::string>& regimes) {
  std::vector<std::string> wanted = regimes;
  if (wanted.empty()) wanted = {"strong", "weak", "mixed"};
  std::vector<Subject> subjects;
  for (const reference::Case& row : reference::cases()) {
    for (const std::string& regime : wanted) {
      subjects.push_back(
          {row.name, reference::problem_of(row), reference::cu_seqlens_of(row), regime, &row});
    }
  }
  return subjects;
}

std::vector<Subject> linear_suite(const std::vector<std::string>& regimes) {
  std::vector<Subject> subjects;
  for (const int heads : {4, 8, 32}) {
    const std::string words = fmt::format("T=8192,32768,131072,524288,1048576 H={}", heads);
    for (Subject& subject : must(subjects_of(words, regimes))) {
      subjects.push_back(std::move(subject));
    }
  }
  return subjects;
}

std::vector<Subject> serving_suite(std::span<const char* const> problems,
                                   const std::vector<std::string>& regimes) {
  std::vector<Subject> subjects;
  for (const char* words : problems) {
    for (Subject& subject : must(subjects_of(words, regimes))) {
      subjects.push_back(std::move(subject));
    }
  }
  return subjects;
}

std::span<const char* const> decode_problems() {
  static constexpr const char* kProblems[] = {
      "T=1 N=1 H=32 pool=1 state=f32,bf16",
      "T=8 N=8 H=32 pool=1 state=f32,bf16",
      "T=64 N=64 H=32 pool=1 state=f32,bf16",
      "T=256 N=256 H=32 pool=1 state=f32,bf16",
      "T=256 N=256 H=32 pool=1 layout=key_first",
      "T=256 N=256 H=32",
      "T=256 N=64 H=32 pool=1",
      "T=256 N=64 H=32 pool=1 drafts=1",
      "T=64 N=64 H=16 HV=64 pool=1",
      "T=64 N=64 H=32 pool=1 varlen=1 slots=i64",
  };
  return kProblems;
}

std::span<const char* const> serving_problems() {
  static constexpr const char* kProblems[] = {
      "T=8192 H=64 pool=1",
      "T=8192 H=64 pool=1 checkpoint=64",
      "T=8192 H=16 pool=1",
      "T=8192 H=16 pool=1 checkpoint=64",
      "H=16 pool=1 seqlens=8192",
      "H=16 pool=1 seqlens=256x1",
      "H=16 pool=1 seqlens=256x1,8192",
      "H=16 pool=1 mixed=1 seqlens=256x1,8192",
  };
  return kProblems;
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
  return T * bytes(problem.qkv_type) * (2 * H * K + 2 * HV * V) +
         T * HV * (bytes(problem.gate_type) * K + bytes(problem.beta_type)) +
         states * N * HV * K * V * bytes(problem.state_type);
}

}  // namespace kda::cli
