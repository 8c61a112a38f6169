#include "tune/plot_data.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/subject.hpp"
#include "device/device.hpp"
#include "reference/cases.hpp"
#include "reference/tensors.hpp"
#include "strategy/table.hpp"

namespace kda::tune_tool {
namespace {

using cli::Json;

// Dense bf16 products of an H200, measured (peers.md), for each multiprocessor of capability 9.0.
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

Json row_of(const tune::Measurement& m) {
  Json values = Json::object();
  for (const auto& [name, value] : m.candidate.tuning) values[name] = value;
  Json row = {{"strategy", m.candidate.strategy},
              {"tuning", values},
              {"outcome", tune::name_of(m.outcome)},
              {"rung", m.rung},
              {"at", m.at_seconds},
              {"device", m.device}};
  if (m.time_us.n > 0) {
    row["us"] = m.time_us.median;
    row["iqr"] = m.time_us.iqr;
    row["workspace"] = m.needs.workspace_bytes;
    row["registers"] = m.needs.registers;
    row["shared"] = m.needs.shared_bytes;
    row["occupancy"] = m.needs.occupancy;
  }
  if (!m.why.empty()) row["why"] = m.why.substr(0, 200);
  return row;
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
  for (const tune::Measurement& each : journal.measurements) rows.push_back(row_of(each));
  Json data = {{"name", name_of(header.problem, header.lengths)},
               {"device", header.environment.device},
               {"compiler", header.environment.compiler},
               {"date", header.date},
               {"method", header.method},
               {"strategies", std::move(strategies)},
               {"roof", roof_of(header.environment, header.problem)},
               {"rows", std::move(rows)}};
  if (journal.winner) {
    data["winner"] = tune::to_text(journal.winner->winner);
    data["fallback"] = tune::to_text(journal.winner->fallback);
    data["decision"] = journal.winner->decision;
    data["considered"] = journal.winner->considered;
  }
  return data;
}

}  // namespace kda::tune_tool
