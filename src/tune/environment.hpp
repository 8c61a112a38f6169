// What a measured time depends on beside the problem: it is only evidence where all of this agrees.
#pragma once

#include <string>

#include "device/device.hpp"

namespace kda::tune {

struct Environment {
  std::string device;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int multiprocessors = 0;  // fewer in a MIG slice
  std::size_t l2_bytes = 0;
  std::string templates;  // digest of every template of this library
  std::string compiler;   // "nvrtc 13.0 CL-36424714 V13.0.88"
  std::string policy;     // how times were taken: kPolicy

  friend bool operator==(const Environment&, const Environment&) = default;
};

// CUDA graphs of calls, inputs rotated past the L2, GPU time alone.
constexpr const char* kPolicy = "graph, cold L2";

// Environment::templates of this library, 32 hex digits.
std::string templates_digest();

// Of this library on the device, present or named.  Fails where no compiler can be asked.
Result<Environment> environment_of(const device::Device& device);

// 16 hex digits over every field: the directory of its records.
std::string digest(const Environment& environment);

std::string to_json(const Environment& environment);

}  // namespace kda::tune
