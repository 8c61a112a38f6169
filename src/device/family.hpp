// TABLE: which templates and which NVRTC target serve a compute capability.
#pragma once

#include <string>

#include "device/device.hpp"

namespace kda::device {

struct Family {
  int major, minor;      // compute capability served
  const char* target;    // NVRTC's --gpu-architecture: "sm_90a"
  const char* folder;    // templates/<folder> first ...
  const char* fallback;  // ... then templates/<fallback>
};

// The row for the device.  Fails with unsupported, naming the capabilities served.
Result<Family> family_of(const Device& device);

}  // namespace kda::device
