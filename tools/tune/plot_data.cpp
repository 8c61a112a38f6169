#include "tune/plot_data.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/subject.hpp"
#include "device/device.hpp"
#include "reference/cases.hpp"
#include "reference/tensors.hpp"
#include "strategy/table.hpp"

namespace kda::tune_tool {
namespace {

using cli::Json;

// Dense bf16 products of an H200, as measured before this library was begun, for each
// multiprocessor of capability 9.0.
constexpr double kFlopsOfMultiprocessor = 793e12 / 132;

// The recurrence's own work: decay, k^T S, the update, q^T S.
double flops_of(const Problem& p) {
  return 7.0 * static_cast<double>(p.max_tokens) * p.value_heads * p.key_dim * p.value_dim;
}

std::string name_of(const Problem& p, const std::vector<std::int64_t>& lengths) {
  for (const reference::Case& row : reference::cases()) {
    const Problem known = reference::problem_of(row);
    const bool same = known.max_tokens == p.max_tokens && known.heads == p.heads &&
                      (known.value_heads == p.value_heads ||
                       (known.value_heads == 0 && p.value_heads == p.heads)) &&
                      static_cast<std::size_t>(row.sequences) == lengths.size() &&
                      known.varlen == p.varlen && p.key_dim == 128 && p.value_dim == 128;
    if (same) return row.name;
  }
  return fmt::format("T={} N={} H={} HV={} K={} V={}", p.max_tokens, p.max_sequences, p.heads,
                     p.value_heads, p.key_dim, p.value_dim);
}

Json roof_of(const tune::Environment& environment, const Problem& problem) {
  Json roof = {{"bytes", cli::floor_bytes(problem)}, {"flops", flops_of(problem)}};
  for (const std::string& word : device::known_names()) {
    const Result<device::Device> known = device::parse(word);
    if (!known || known->name != environment.device || known->memory_bandwidth <= 0) continue;
    roof["bandwidth"] = known->memory_bandwidth;
    break;
  }
  if (environment.major == 9 && environment.minor == 0) {
    roof["peak"] = kFlopsOfMultiprocessor * environment.multiprocessors;
  }
  return roof;
}

// What the page needs of a time, in as few characters.
double rounded(double x) { return std::round(x * 1000) / 1000; }

// In the order of `row` in plot_page.cpp; the tuning in that of its strategy's space.
Json row_of(const tune::Measurement& m) {
  Json values = Json::array();
  for (const auto& [name, value] : m.candidate.tuning) values.push_back(value);
  return {m.candidate.strategy,
          values,
          m.rung,
          rounded(m.at_seconds),
          m.device,
          rounded(m.time_us.median),
          rounded(m.time_us.iqr),
          m.needs.workspace_bytes,
          m.needs.registers,
          m.needs.shared_bytes};
}

}  // namespace

Json plot_data(const tune::JournalContents& journal) {
  const tune::JournalHeader& header = journal.header;
  Json strategies = Json::object();
  for (const strategy::Strategy* each : strategy::table()) {
    Json& names = strategies[each->name] = Json::array();
    for (const tunable::Row& row : each->space()) names.push_back(row.name);
  }
  Json rows = Json::array();
  std::map<std::string, int> refused;  // by outcome
  for (const tune::Measurement& each : journal.measurements) {
    if (each.outcome != tune::Outcome::ok) {
      ++refused[tune::name_of(each.outcome)];
    } else if (each.time_us.n > 0) {
      rows.push_back(row_of(each));
    }
  }
  Json data = {{"name", name_of(header.problem, header.lengths)},
               {"device", header.environment.device},
               {"compiler", header.environment.compiler},
               {"date", header.date},
               {"method", header.method},
               {"strategies", std::move(strategies)},
               {"roof", roof_of(header.environment, header.problem)},
               {"rows", std::move(rows)},
               {"refused", refused}};
  if (journal.winner) {
    data["winner"] = tune::to_text(journal.winner->winner);
    data["fallback"] = tune::to_text(journal.winner->fallback);
    data["decision"] = journal.winner->decision;
    data["considered"] = journal.winner->considered;
  }
  return data;
}

}  // namespace kda::tune_tool
