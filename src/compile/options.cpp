#include <fmt/format.h>

#include "compile/nvrtc.hpp"

namespace kda::compile {

std::vector<std::string> options(std::string_view target) {
  return {
      fmt::format("--gpu-architecture={}", target),
      "--std=c++20",
      "--device-as-default-execution-space",  // abi/'s constexpr functions carry no __device__
      "--no-source-include",                  // headers come from the table alone
      "--ptxas-options=-v",                   // the report that Resources come from
  };
}

}  // namespace kda::compile
