// Whether bytes are a cubin that holds a kernel: NVRTC answers success with nothing in hand after a
// failed compile.
#pragma once

#include <string>
#include <string_view>

namespace kda::compile {

// What is wrong with the image; empty when it is an ELF for CUDA that defines the function.
std::string check_cubin(std::string_view image, std::string_view entry);

}  // namespace kda::compile
