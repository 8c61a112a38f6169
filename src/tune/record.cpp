#include "tune/record.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/digest.hpp"
#include "problem/problem.hpp"
#include "strategy/prepared_by.hpp"
#include "tune/fields_of.hpp"

namespace kda::tune {

namespace {

constexpr int kRecordFormat = 1;
constexpr int kMost = std::numeric_limits<int>::max();

Problem problem_of(Fields& fields) {
  const Result<Problem> parsed = problem::parse(fields.text("problem"));
  const Result<Problem> complete = parsed ? problem::complete(*parsed) : parsed;
  if (complete) return *complete;
  // Perhaps a newer library's words.
  fields.refuse(complete.status().message(), Code::unsupported);
  return {};
}

void read_fallback(Fields& from, Record& record) {
  Fields fields(from.object("default"), "default");
  record.fallback = candidate_of(fields);
  record.fallback_us = fields.number("us");
  if (!fields.status()) from.refuse(fields.status().message());
}

void read_search(Fields& from, Record& record) {
  Fields fields(from.object("search"), "search");
  record.method = fields.text("method");
  record.considered = static_cast<int>(fields.integer("considered", 0, kMost));
  record.measured = static_cast<int>(fields.integer("measured", 0, kMost));
  record.seconds = fields.number("seconds");
  for (const auto& [why, count] : fields.object("rejected").items()) {
    if (count.is_number_unsigned() && count.get<std::uint64_t>() <= std::uint64_t{kMost}) {
      record.rejected[why] = count.get<int>();
    }
  }
  if (!fields.status()) from.refuse(fields.status().message());
}

}  // namespace

std::string key_of(const Problem& problem) {
  Problem asked = strategy::without_values(problem);
  if (!asked.varlen) asked.cu_seqlens_type = Index::i64;
  return problem::to_text(asked);
}

std::string key_digest(const Problem& problem) {
  return base::digest(key_of(problem)).substr(0, 16);
}

std::string to_json(const Record& r) {
  Json json = {{"kda_wisdom", kRecordFormat},
               {"key", key_digest(r.problem)},
               {"problem", problem::to_text(r.problem)},
               {"lengths", r.lengths},
               {"environment", json_of(r.environment)},
               {"strategy", r.winner.strategy},
               {"tuning", tunable::to_text(r.winner.tuning)},
               {"time_us", json_of(r.time_us)},
               {"needs", json_of(r.needs)},
               {"default",
                {{"strategy", r.fallback.strategy},
                 {"tuning", tunable::to_text(r.fallback.tuning)},
                 {"us", r.fallback_us}}},
               {"decision", r.decision}};
  Json& others = json["by_strategy"] = Json::array();
  for (const Measurement& each : r.by_strategy) {
    others.push_back({{"strategy", each.candidate.strategy},
                      {"tuning", tunable::to_text(each.candidate.tuning)},
                      {"rung", each.rung},
                      {"time_us", json_of(each.time_us)}});
  }
  Json rejected = Json::object();
  for (const auto& [why, count] : r.rejected) rejected[why] = count;
  json["search"] = {{"method", r.method},
                    {"considered", r.considered},
                    {"measured", r.measured},
                    {"rejected", std::move(rejected)},
                    {"seconds", r.seconds}};
  json["driver"] = r.driver;
  json["library"] = r.library;
  json["date"] = r.date;
  return line_of(json);
}

Result<Record> parse_record(std::string_view line) {
  Fields fields(line, "wisdom");
  if (!fields.status()) return fields.status();
  const std::int64_t format = fields.integer("kda_wisdom", 1, std::numeric_limits<int>::max());
  if (fields.status().ok() && format > kRecordFormat) {
    fields.refuse(fmt::format("format {} is newer than this library's {}", format, kRecordFormat),
                  Code::unsupported);
  }
  if (!fields.status()) return fields.status();

  Record r;
  r.problem = problem_of(fields);
  r.lengths = fields.integers("lengths");
  r.environment = environment_of(fields);
  r.winner = candidate_of(fields);
  r.time_us = summary_of(fields.object("time_us"), "time_us");
  r.needs = needs_of(fields.object("needs"));
  read_fallback(fields, r);
  r.decision = fields.text("decision");
  for (const Json& each : fields.array("by_strategy")) {
    Fields other(each, "by_strategy");
    Measurement m;
    m.candidate = candidate_of(other);
    m.rung = static_cast<int>(other.integer("rung", 0, kFinals));
    m.time_us = summary_of(other.object("time_us"), "time_us");
    // Those of a strategy that this library lacks say nothing to it.
    if (other.status() && m.time_us.median > 0) r.by_strategy.push_back(std::move(m));
  }
  read_search(fields, r);
  r.driver = fields.text("driver");
  r.library = fields.text("library");
  r.date = fields.text("date");
  if (!(r.time_us.median > 0)) fields.refuse("time_us.median is not above 0");
  if (!fields.status()) return fields.status();
  return r;
}

}  // namespace kda::tune
