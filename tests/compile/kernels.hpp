// Small jobs for the compiler.
#pragma once

#include <string>

#include "compile/nvrtc.hpp"

namespace kda::test {

inline compile::Job job_for(const std::string& target, const std::string& body = "*out = 1;") {
  return {.source = "extern \"C\" __global__ void kernel(int* out) { " + body + " }\n",
          .entry = "kernel",
          .target = target,
          .options = compile::options(target)};
}

}  // namespace kda::test
