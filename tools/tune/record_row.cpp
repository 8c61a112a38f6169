#include "tune/record_row.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "problem/problem.hpp"

namespace kda::tune_tool {
namespace {

constexpr cli::Column kRecordColumns[] = {{"key", "key"},
                                          {"source", "source"},
                                          {"device", "device"},
                                          {"size", "problem"},
                                          {"strategy", "strategy"},
                                          {"tuning", "tuning"},
                                          {"time_us.median", "us", 1},
                                          {"default_us", "default us", 1},
                                          {"decision", "decision"},
                                          {"date", "date"}};

}  // namespace

cli::Json record_row(const tune::Record& record) {
  const Problem& p = record.problem;
  const measure::Summary& time = record.time_us;
  return {
      {"key", tune::key_digest(p)},
      {"device", record.environment.device},
      {"size",
       fmt::format("T={} N={} H={} HV={} K={} V={}{}", p.max_tokens, p.max_sequences, p.heads,
                   p.value_heads, p.key_dim, p.value_dim, p.varlen ? " varlen=1" : "")},
      {"words", problem::to_text(p)},
      {"lengths", record.lengths},
      {"strategy", record.winner.strategy},
      {"tuning", tunable::to_text(record.winner.tuning)},
      {"time_us", {{"n", time.n}, {"median", time.median}, {"iqr", time.iqr}, {"min", time.min}}},
      {"default_us", record.fallback_us},
      {"default", tune::to_text(record.fallback)},
      {"decision", record.decision},
      {"registers", record.needs.registers},
      {"spill_bytes", record.needs.spill_bytes},
      {"shared_bytes", record.needs.shared_bytes},
      {"workspace_bytes", record.needs.workspace_bytes},
      {"occupancy", record.needs.occupancy},
      {"method", record.method},
      {"considered", record.considered},
      {"measured", record.measured},
      {"rejected", record.rejected},
      {"seconds", record.seconds},
      {"nvrtc", record.environment.compiler},
      {"templates", record.environment.templates},
      {"driver", record.driver},
      {"library", record.library},
      {"date", record.date}};
}

std::span<const cli::Column> record_columns() { return kRecordColumns; }

}  // namespace kda::tune_tool
