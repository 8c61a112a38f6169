// TABLE: devices known by name, for compiling where they are not.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "device/device.hpp"

namespace kda::device {
namespace {

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;
constexpr double GBs = 1e9;  // bytes a second

// What a block may use by capability: the multiprocessor's shared memory less 1 KiB.
constexpr std::size_t kShared80 = 163 * KiB;  // 166912; 8.7 too
constexpr std::size_t kShared86 = 99 * KiB;   // 101376; 8.9 and 12.x too
constexpr std::size_t kShared90 = 227 * KiB;  // 232448; 10.x too

struct Named {
  const char* word;
  const char* name;
  int major, minor;
  int multiprocessors;
  std::size_t shared_per_block, shared_per_multiprocessor, l2_bytes;
  double memory_bandwidth;

  bool is_target() const { return std::string_view(word) == name; }
};

// A bare target stands for its family's commonest device.
constexpr Named devices[] = {
    {"h200", "NVIDIA H200", 9, 0, 132, kShared90, 228 * KiB, 60 * MiB, 4800 * GBs},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, kShared90, 228 * KiB, 50 * MiB, 3350 * GBs},
    {"a100", "NVIDIA A100 SXM 80GB", 8, 0, 108, kShared80, 164 * KiB, 40 * MiB, 2039 * GBs},
    {"l40s", "NVIDIA L40S", 8, 9, 142, kShared86, 100 * KiB, 96 * MiB, 864 * GBs},
    {"l4", "NVIDIA L4", 8, 9, 58, kShared86, 100 * KiB, 48 * MiB, 300 * GBs},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, kShared86, 100 * KiB, 72 * MiB, 1008 * GBs},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 8, 6, 82, kShared86, 100 * KiB, 6 * MiB, 936 * GBs},
    {"b200", "NVIDIA B200", 10, 0, 148, kShared90, 228 * KiB, 126 * MiB, 8000 * GBs},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 12, 0, 170, kShared86, 100 * KiB, 96 * MiB, 1792 * GBs},
    {"sm_80", "sm_80", 8, 0, 108, kShared80, 164 * KiB, 40 * MiB, 2039 * GBs},
    {"sm_86", "sm_86", 8, 6, 82, kShared86, 100 * KiB, 6 * MiB, 936 * GBs},
    {"sm_87", "sm_87", 8, 7, 16, kShared80, 164 * KiB, 4 * MiB, 204.8 * GBs},
    {"sm_89", "sm_89", 8, 9, 128, kShared86, 100 * KiB, 72 * MiB, 1008 * GBs},
    {"sm_90", "sm_90", 9, 0, 132, kShared90, 228 * KiB, 50 * MiB, 3350 * GBs},
    {"sm_90a", "sm_90a", 9, 0, 132, kShared90, 228 * KiB, 50 * MiB, 3350 * GBs},
    {"sm_100", "sm_100", 10, 0, 148, kShared90, 228 * KiB, 126 * MiB, 8000 * GBs},
    {"sm_100a", "sm_100a", 10, 0, 148, kShared90, 228 * KiB, 126 * MiB, 8000 * GBs},
    {"sm_103", "sm_103", 10, 3, 148, kShared90, 228 * KiB, 126 * MiB, 8000 * GBs},
    {"sm_103a", "sm_103a", 10, 3, 148, kShared90, 228 * KiB, 126 * MiB, 8000 * GBs},
    {"sm_120", "sm_120", 12, 0, 170, kShared86, 100 * KiB, 96 * MiB, 1792 * GBs},
    {"sm_120a", "sm_120a", 12, 0, 170, kShared86, 100 * KiB, 96 * MiB, 1792 * GBs},
    {"sm_121", "sm_121", 12, 1, 48, kShared86, 100 * KiB, 24 * MiB, 273 * GBs},
    {"sm_121a", "sm_121a", 12, 1, 48, kShared86, 100 * KiB, 24 * MiB, 273 * GBs},
};

Device device_of(const Named& row) {
  return {.name = row.name,
          .major = row.major,
          .minor = row.minor,
          .multiprocessors = row.multiprocessors,
          .shared_per_block = row.shared_per_block,
          .shared_per_multiprocessor = row.shared_per_multiprocessor,
          .l2_bytes = row.l2_bytes,
          .memory_bandwidth = row.memory_bandwidth};
}

// Null where the name is not known.
const Named* find(std::string_view name) {
  const std::string word = base::lower(base::trim(name));
  for (const Named& row : devices) {
    if (word == row.word) return &row;
  }
  return nullptr;
}

}  // namespace

Result<Device> parse(std::string_view name) {
  if (const Named* row = find(name)) return device_of(*row);
  return Status(Code::invalid_argument,
                fmt::format("device {} is not known; known are {}", base::quote(name),
                            base::join(known_names(), ", ")));
}

std::vector<Device> devices_of(std::string_view target) {
  std::vector<Device> found;
  const Named* bare = find(target);
  if (bare == nullptr || !bare->is_target()) return found;
  for (const Named& row : devices) {
    const bool served = row.major == bare->major && row.minor == bare->minor;
    if (served && !row.is_target()) found.push_back(device_of(row));
  }
  return found;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Named& row : devices) names.emplace_back(row.word);
  return names;
}

}  // namespace kda::device
