// What results were measured with: every row carries it.
#pragma once

#include <string>

#include "device/device.hpp"

namespace kda::cli {

struct Machine {
  std::string device;      // "NVIDIA H200"
  std::string capability;  // "9.0"
  int multiprocessors = 0;
  std::string driver;  // "580.159.03, CUDA 13.0"
  std::string nvrtc;   // "nvrtc 13.0 CL-36424714 V13.0.88"
  std::string version, commit;
  std::string date;  // "2026-11-21T03:58:00Z"
};

// What is missing reads "none".
Machine machine_of(const device::Device& device);

// The kernel module's release and the newest CUDA the driver serves; "none" without a driver.
std::string driver_text();

}  // namespace kda::cli
