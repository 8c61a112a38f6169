#include "tune/entry_row.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kda::tune_tool {
namespace {

constexpr cli::Column kEntryColumns[] = {{"key", "key"},
                                         {"entry", "kernel"},
                                         {"target", "target"},
                                         {"registers", "regs"},
                                         {"spill_bytes", "spill B"},
                                         {"cubin_bytes", "cubin B"},
                                         {"compile_ms", "compile ms", 0},
                                         {"used", "used"},
                                         {"compiler", "compiler"}};

}  // namespace

cli::Json entry_row(const cache::Stored& stored, std::int64_t used) {
  const cache::Entry& entry = stored.entry;
  const std::string* compiler = cache::value_of(stored.key, cache::kCompilerField);
  cli::Json row{{"key", stored.digest()},
                {"entry", entry.entry},
                {"target", entry.target},
                {"registers", entry.resources.registers},
                {"spill_bytes", entry.resources.spill_bytes},
                {"stack_bytes", entry.resources.stack_bytes},
                {"static_shared_bytes", entry.resources.static_shared_bytes},
                {"cubin_bytes", stored.cubin_bytes},
                {"compile_ms", entry.resources.compile_milliseconds}};
  if (used != 0) row["used"] = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(used));
  if (compiler != nullptr) row["compiler"] = *compiler;
  return row;
}

std::span<const cli::Column> entry_columns() { return kEntryColumns; }

}  // namespace kda::tune_tool
