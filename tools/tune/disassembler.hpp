// A cubin to SASS, by whichever of NVIDIA's tools is installed.
#pragma once

#include <string>

#include "kda/status.hpp"

namespace kda::tune_tool {

// nvdisasm, else cuobjdump, from $PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda.  Fails with
// unsupported, saying what to install, when there is neither.
Result<std::string> disassemble(const std::string& cubin);

}  // namespace kda::tune_tool
