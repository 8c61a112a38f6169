#include "compile/resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/text.hpp"

namespace kda::compile {
namespace {

constexpr int kMost = 1 << 30;  // what a report may say, and what its sums end at

// The number before a phrase: 24 in "used 1 barriers, 24 bytes smem" for " bytes smem".
int number_before(std::string_view line, std::string_view phrase) {
  const std::size_t end = line.find(phrase);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  const std::int64_t number = base::parse_integer(line.substr(begin, end - begin)).value_or(0);
  return static_cast<int>(std::min<std::int64_t>(number, kMost));
}

}  // namespace

// ptxas reports an entry, then the functions it calls that were not inlined, then what all of them
// use:
//   ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are
//                   serialized due to ... in the function 'name'          (all of one line)
//   ptxas info    : Compiling entry function 'name' for 'sm_90a'
//   ptxas info    : Function properties for name
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 30 registers, used 1 barriers, 1024 bytes smem
Resources parse_resources(std::string_view log, std::string_view entry) {
  const std::string heading = fmt::format("Compiling entry function '{}'", entry);
  const std::string serialized = fmt::format("in the function '{}'", entry);
  Resources resources;
  bool inside = false;
  for (const std::string_view line : base::split(log, '\n')) {
    if (line.find("wgmma.mma_async instructions are serialized") != std::string_view::npos &&
        line.find(serialized) != std::string_view::npos) {
      resources.serialized_wgmma = 1;
    }
    if (line.find("Compiling entry function '") != std::string_view::npos) {
      inside = line.find(heading) != std::string_view::npos;
      continue;
    }
    if (!inside) continue;
    resources.stack_bytes =
        std::max(resources.stack_bytes, number_before(line, " bytes stack frame"));
    const std::int64_t spilled = std::int64_t{resources.spill_bytes} +
                                 number_before(line, " bytes spill stores") +
                                 number_before(line, " bytes spill loads");
    resources.spill_bytes = static_cast<int>(std::min<std::int64_t>(spilled, kMost));
    if (line.find("Used ") != std::string_view::npos) {
      resources.registers = number_before(line, " registers");
      resources.static_shared_bytes = number_before(line, " bytes smem");
    }
  }
  return resources;
}

}  // namespace kda::compile
