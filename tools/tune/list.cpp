#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cases.hpp"
#include "cli/failure.hpp"
#include "cli/presets.hpp"
#include "device/device.hpp"
#include "device/family.hpp"
#include "plan/choose.hpp"
#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "tune/commands.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;

constexpr Column kStrategies[] = {{"name", "strategy"}, {"summary", "what it does"}};
constexpr Column kTunables[] = {
    {"strategy", "strategy"}, {"name", "tunable"}, {"values", "values"}, {"meaning", "meaning"}};
constexpr Column kNamedDevices[] = {{"word", "word"},
                                    {"name", "device"},
                                    {"capability", "capability"},
                                    {"target", "target"},
                                    {"folders", "templates"},
                                    {"multiprocessors", "SMs"},
                                    {"shared_kb", "smem KB a block", 0},
                                    {"l2_mb", "L2 MB", 0}};

Json strategies() {
  Json rows = Json::array();
  for (const strategy::Strategy* each : strategy::table()) {
    rows.push_back({{"name", each->name}, {"summary", each->summary}});
  }
  return rows;
}

Json tunables() {
  Json rows = Json::array();
  for (const strategy::Strategy* each : strategy::table()) {
    for (const tunable::Row& row : each->space()) {
      rows.push_back({{"strategy", each->name},
                      {"name", row.name},
                      {"values", row.values},
                      {"meaning", row.meaning}});
    }
  }
  return rows;
}

std::string folders_of(const device::Family& family) {
  const std::string folder = family.folder;
  return folder == family.fallback ? folder : folder + ", then " + family.fallback;
}

Json devices() {
  Json rows = Json::array();
  for (const std::string& word : device::known_names()) {
    const device::Device device = cli::must(device::parse(word));
    const Result<device::Family> family = device::family_of(device);
    rows.push_back({{"word", word},
                    {"name", device.name},
                    {"capability", fmt::format("{}.{}", device.major, device.minor)},
                    {"target", family ? Json(family->target) : Json(nullptr)},
                    {"folders", family ? Json(folders_of(*family)) : Json(nullptr)},
                    {"multiprocessors", device.multiprocessors},
                    {"shared_kb", static_cast<double>(device.shared_per_block) / 1024},
                    {"l2_mb", static_cast<double>(device.l2_bytes) / (1 << 20)}});
  }
  return rows;
}

}  // namespace

int list(const Request& request) {
  cli::Document document(request.output);
  document.add("strategies", strategies(), kStrategies);
  document.add("tunables", tunables(), kTunables);
  document.add("devices", devices(), kNamedDevices);
  document.add("cases", cli::case_rows(), cli::case_columns());
  document.add("models", cli::preset_rows(), cli::preset_columns());
  document.print();
  return cli::kOk;
}

}  // namespace kda::tune_tool
