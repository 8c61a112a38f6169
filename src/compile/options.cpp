#include <fmt/format.h>

#include "compile/nvrtc.hpp"
#include "compile/toolchain.hpp"

namespace kda::compile {

std::vector<std::string> options(std::string_view target) {
  std::vector<std::string> flags = {
      fmt::format("--gpu-architecture={}", target),
      "--std=c++20",
      "--device-as-default-execution-space",  // abi/'s constexpr functions carry no __device__
      "--no-source-include",                  // headers come from the table alone
      "--ptxas-options=-v",                   // the report that Resources come from
  };
  // From 12.9 on NVRTC keeps a cache of its own, whose hits bring no report.
  const Result<Toolchain> found = toolchain();
  if (found && (found->major > 12 || found->minor >= 9)) flags.emplace_back("--no-cache");
  return flags;
}

}  // namespace kda::compile
