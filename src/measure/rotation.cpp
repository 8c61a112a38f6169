#include "measure/rotation.hpp"

#include <algorithm>
#include <cmath>

namespace kda::measure {
namespace {

constexpr double kTimesL2 = 5;         // a rotation's bytes over the L2's
constexpr double kMemoryShare = 0.85;  // of what is free, the rest is for the workspace
constexpr int kMostSets = 64;

}  // namespace

int rotation(double set_bytes, double l2_bytes, double free_bytes) {
  const int fitting = static_cast<int>(std::min(kMemoryShare * free_bytes / set_bytes, 1e6));
  const int wanted = static_cast<int>(std::ceil(kTimesL2 * l2_bytes / set_bytes));
  return std::min(fitting, std::clamp(wanted, 2, kMostSets));
}

}  // namespace kda::measure
