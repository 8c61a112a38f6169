#include "tune/needs.hpp"

#include <nlohmann/json.hpp>

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;

constexpr Column kKernelColumns[] = {
    {"arch", "arch"},           {"strategy", "strategy"},        {"tuning", "tuning"},
    {"stage", "stage"},         {"template", "template"},        {"threads", "threads"},
    {"registers", "regs"},      {"spill_bytes", "spill B"},      {"stack_bytes", "stack B"},
    {"shared_bytes", "smem B"}, {"compile_ms", "compile ms", 0}, {"cubin_bytes", "cubin B"},
    {"origin", "origin"},       {"used_by", "used by"},          {"note", "note"},
};

}  // namespace

Json kernel_row(const compose::Stage& stage, const program::Unit& unit, const cache::Found* found) {
  Json row{{"arch", unit.job.target},  {"stage", stage.name},
           {"template", unit.path},    {"entry", stage.entry},
           {"threads", stage.threads}, {"dynamic_shared_bytes", stage.shared_bytes},
           {"key", unit.key.digest()}, {"origin", "not compiled"}};
  if (found == nullptr) return row;
  const compile::Resources& needs = found->entry->resources;
  row["registers"] = needs.registers;
  row["spill_bytes"] = needs.spill_bytes;
  row["stack_bytes"] = needs.stack_bytes;
  row["static_shared_bytes"] = needs.static_shared_bytes;
  row["shared_bytes"] = stage.shared_bytes + static_cast<std::size_t>(needs.static_shared_bytes);
  if (needs.serialized_wgmma != 0)
    row["note"] = "ptxas serializes its wgmma: a newer NVRTC may not";
  row["compile_ms"] = needs.compile_milliseconds;
  row["cubin_bytes"] = found->entry->cubin.size();
  row["origin"] = cache::name_of(found->origin);
  return row;
}

std::span<const Column> kernel_columns() { return kKernelColumns; }

Result<cache::Found> look_up(const program::Unit& unit, cache::Cache& cache) {
  if (const std::optional<cache::Found> found = cache.find(unit.key)) return *found;
  return Status(Code::compile_failed, "not compiled yet");
}

}  // namespace kda::tune_tool
