#include "tune/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "tune/fields_of.hpp"

namespace kda::tune {

namespace {

constexpr const char* kOutcomes[] = {"ok",    "compile", "spills", "occupancy",
                                     "wrong", "crash",   "timeout"};
constexpr int kAnyInt = std::numeric_limits<int>::max();
constexpr std::int64_t kAnySize = std::numeric_limits<std::int64_t>::max();

}  // namespace

const char* name_of(Outcome outcome) noexcept {
  const auto at = static_cast<std::size_t>(outcome);
  return at < std::size(kOutcomes) ? kOutcomes[at] : "unknown";
}

Result<Outcome> parse_outcome(std::string_view word) {
  const auto* found = std::find(std::begin(kOutcomes), std::end(kOutcomes), word);
  if (found != std::end(kOutcomes)) {
    return static_cast<Outcome>(found - std::begin(kOutcomes));
  }
  return Status(Code::invalid_argument, fmt::format("outcome '{}' is not known", word));
}

bool needs_less(const Needs& a, const Needs& b) {
  return std::tuple(a.workspace_bytes, a.shared_bytes, a.registers, a.threads) <
         std::tuple(b.workspace_bytes, b.shared_bytes, b.registers, b.threads);
}

Json json_of(const measure::Summary& summary) {
  return {{"n", summary.n}, {"median", summary.median}, {"iqr", summary.iqr}, {"min", summary.min}};
}

measure::Summary summary_of(const Json& json, const char* what) {
  Fields fields(json, what);
  return {.n = static_cast<std::size_t>(fields.integer("n", 0, kAnySize)),
          .median = fields.number("median"),
          .iqr = fields.number("iqr"),
          .min = fields.number("min")};
}

Json json_of(const Needs& needs) {
  return {{"registers", needs.registers},       {"spill_bytes", needs.spill_bytes},
          {"shared_bytes", needs.shared_bytes}, {"workspace_bytes", needs.workspace_bytes},
          {"threads", needs.threads},           {"occupancy", needs.occupancy},
          {"compile_ms", needs.compile_ms}};
}

Needs needs_of(const Json& json) {
  Fields fields(json, "needs");
  return {
      .registers = static_cast<int>(fields.integer("registers", 0, kAnyInt)),
      .spill_bytes = static_cast<int>(fields.integer("spill_bytes", 0, kAnyInt)),
      .shared_bytes = static_cast<std::size_t>(fields.integer("shared_bytes", 0, kAnySize)),
      .workspace_bytes = static_cast<std::size_t>(fields.integer("workspace_bytes", 0, kAnySize)),
      .threads = static_cast<unsigned>(fields.integer("threads", 0, kAnyInt)),
      .occupancy = fields.number("occupancy"),
      .compile_ms = fields.number("compile_ms")};
}

Candidate candidate_of(Fields& fields) {
  Result<Candidate> candidate = parse_candidate(fields.text("strategy"), fields.text("tuning"));
  if (candidate) return *std::move(candidate);
  fields.refuse(candidate.status().message(), Code::unsupported);
  return {};
}

Json json_of(const Measurement& m) {
  Json json = {{"at", m.at_seconds},
               {"rung", m.rung},
               {"device", m.device},
               {"strategy", m.candidate.strategy},
               {"tuning", tunable::to_text(m.candidate.tuning)},
               {"outcome", name_of(m.outcome)}};
  if (!m.why.empty()) json["why"] = m.why;
  json["time_us"] = json_of(m.time_us);
  json["expected_us"] = m.expected_us;
  // A wrong kernel's may be NaN, which JSON has no word for.
  if (std::isfinite(m.o_error)) json["o_error"] = m.o_error;
  if (std::isfinite(m.state_error)) json["state_error"] = m.state_error;
  json["needs"] = json_of(m.needs);
  return json;
}

Result<Measurement> measurement_of(const Json& json) {
  Fields fields(json, "measurement");
  Measurement m;
  m.candidate = candidate_of(fields);
  const Result<Outcome> outcome = parse_outcome(fields.text("outcome"));
  if (!outcome) fields.refuse(outcome.status().message());
  if (!fields.status()) return fields.status();
  m.outcome = *outcome;
  if (fields.has("why")) m.why = fields.text("why");
  m.at_seconds = fields.number("at");
  m.rung = static_cast<int>(fields.integer("rung", 0, kFinals));
  m.device = static_cast<int>(fields.integer("device", -1, kAnyInt));
  m.time_us = summary_of(fields.object("time_us"), "time_us");
  m.expected_us = fields.number("expected_us");
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  m.o_error = fields.has("o_error") ? fields.number("o_error") : kNone;
  m.state_error = fields.has("state_error") ? fields.number("state_error") : kNone;
  m.needs = needs_of(fields.object("needs"));
  if (!fields.status()) return fields.status();
  return m;
}

std::string to_json(const Measurement& measurement) { return line_of(json_of(measurement)); }

Result<Measurement> parse_measurement(std::string_view line) {
  const Json json = parse_json(line);
  if (json.is_discarded()) return Status(Code::invalid_argument, "measurement: is no JSON");
  return measurement_of(json);
}

}  // namespace kda::tune
