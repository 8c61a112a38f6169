// Whether this machine has a CUDA device, asked of the driver and not of the code under test.
#pragma once

#include <string>

namespace kda::test {

// Empty when there is a device; else why there is none, in words.
std::string why_no_gpu();

// Whether there is one; else Catch2 says why the case is skipped.
bool on_device();

}  // namespace kda::test
