#include "tune/match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kda::tune {

namespace {

// How far another size may be, in doublings: of each, and of all together.
constexpr double kFarthest = 2;
constexpr double kFarthestTogether = 3;
constexpr double kOtherBuild = 0.01;          // beside a distance of sizes: only breaks ties
constexpr double kOtherMultiprocessors = 10;  // a device with as many of them comes first

double doublings(double a, double b) {
  return std::abs(std::log2(std::max(a, 1.0) / std::max(b, 1.0)));
}

// None: too far.
std::optional<double> distance_of(const Problem& a, const Problem& b) {
  double sum = 0;
  for (const double each :
       {doublings(static_cast<double>(a.max_tokens), static_cast<double>(b.max_tokens)),
        doublings(a.max_sequences, b.max_sequences), doublings(a.value_heads, b.value_heads)}) {
    if (each > kFarthest) return std::nullopt;
    sum += each;
  }
  if (sum > kFarthestTogether) return std::nullopt;
  return sum;
}

bool same_device(const Environment& e, const device::Device& device) {
  return e.device == device.name && e.major == device.major && e.minor == device.minor &&
         e.multiprocessors == device.multiprocessors;
}

}  // namespace

const char* name_of(Match match) noexcept {
  switch (match) {
    case Match::exact:
      return "exact";
    case Match::other_build:
      return "other build";
    case Match::nearest:
      return "nearest";
    case Match::other_device:
      return "other device";
  }
  return "unknown";
}

const char* name_of(Source source) noexcept {
  switch (source) {
    case Source::user:
      return "user";
    case Source::shared:
      return "shared";
    case Source::shipped:
      return "shipped";
  }
  return "unknown";
}

std::string family_of(const Problem& problem) {
  Problem family = problem;
  family.max_tokens = 0;
  family.max_sequences = 1;
  family.value_heads = problem.value_heads / problem.heads;
  family.heads = 1;
  return key_of(family);
}

Question question_of(const Problem& problem, const device::Device& device,
                     const std::string& strategy) {
  const Result<Environment> environment = environment_of(device);
  return {.problem = problem,
          .device = device,
          .environment = environment ? std::optional(*environment) : std::nullopt,
          .strategy = strategy,
          .key = key_of(problem),
          .family = family_of(problem)};
}

bool better(const Fit& a, const Fit& b) {
  return std::tuple(a.match, a.distance) < std::tuple(b.match, b.distance);
}

std::optional<Fit> fit_of(const Question& question, const Record& record, const std::string& key,
                          const std::string& family) {
  const Environment& e = record.environment;
  if (e.major != question.device.major || e.minor != question.device.minor) return std::nullopt;
  const bool same_build = question.environment && e == *question.environment;
  const bool same_problem = key == question.key;
  const bool here = same_device(e, question.device);
  if (here && same_problem) return Fit{same_build ? Match::exact : Match::other_build, 0};
  if (family != question.family) return std::nullopt;
  const std::optional<double> distance = distance_of(record.problem, question.problem);
  if (!distance) return std::nullopt;
  if (here) return Fit{Match::nearest, *distance + (same_build ? 0 : kOtherBuild)};
  const bool as_wide = e.multiprocessors == question.device.multiprocessors;
  return Fit{Match::other_device, *distance + (as_wide ? 0 : kOtherMultiprocessors)};
}

std::optional<Answer> answer_of(const Question& question, const Record& record) {
  if (question.strategy.empty() || question.strategy == record.winner.strategy) {
    return Answer{record.winner, record.time_us.median};
  }
  for (const Measurement& each : record.by_strategy) {
    if (each.candidate.strategy == question.strategy) {
      return Answer{each.candidate, each.time_us.median};
    }
  }
  return std::nullopt;
}

std::string words_of(const Question& question, const Record& record, const Fit& fit, Source source,
                     const Answer& answer) {
  std::string text = name_of(fit.match);
  if (fit.match == Match::other_build) {
    const Environment& then = record.environment;
    const std::optional<Environment>& now = question.environment;
    const char* other = !now                               ? "an NVRTC, and here is none to compare"
                        : then.templates != now->templates ? "other kernel templates"
                        : then.compiler != now->compiler   ? "another NVRTC"
                        : then.l2_bytes != now->l2_bytes   ? "another size of L2"
                                                           : "another way of timing";
    text += fmt::format(" (measured with {})", other);
  }
  if (fit.match == Match::nearest || fit.match == Match::other_device) {
    const Problem& p = record.problem;
    text += fmt::format(" (measured at T={} N={} H={} HV={}", p.max_tokens, p.max_sequences,
                        p.heads, p.value_heads);
    if (fit.match == Match::other_device) text += " on " + record.environment.device;
    text += ")";
  }
  text += fmt::format(", {} wisdom of {}: {:.1f} us", name_of(source), record.date.substr(0, 10),
                      answer.microseconds);
  if (answer.candidate == record.winner && !record.decision.empty()) text += ", " + record.decision;
  return text;
}

}  // namespace kda::tune
