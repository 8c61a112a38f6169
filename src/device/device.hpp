// A device as the planner sees it: a value, present or only named.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kda/status.hpp"

namespace kda::device {

struct Device {
  std::string name;          // "NVIDIA H200"
  int ordinal = -1;          // -1: named, not present: compile for it, never run
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t shared_per_block = 0;  // bytes a block may opt in to
  std::size_t shared_per_multiprocessor = 0;
  std::size_t l2_bytes = 0;
  double memory_bandwidth = 0;  // bytes a second, for the cost model

  bool present() const noexcept { return ordinal >= 0; }
};

// ordinal -1: the current context's device, else device 0.  Fails with device_error.
Result<Device> query(int ordinal);
// Which device query() would answer for, without asking what it is like.
Result<int> ordinal_of(int ordinal);

// "sm_89", "sm_90a", "h200", "h100", "a100", "l40s", "rtx4090", ...: fails with invalid_argument,
// naming the known ones.
Result<Device> parse(std::string_view name);
// The devices known by name that a bare target ("sm_90a") stands for, whose plans may be others
// than its own.  None where the word is a device's, or unknown.
std::vector<Device> devices_of(std::string_view target);
// The words that parse() takes, for people.
std::vector<std::string> known_names();

}  // namespace kda::device
