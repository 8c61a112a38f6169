#include "device/family.hpp"

#include <fmt/format.h>

namespace kda::device {
namespace {

// TABLE.  A row runs on its fallback folder at once; templates/<folder> need not exist.
constexpr Family families[] = {
    {8, 0, "sm_80", "sm80", "sm80"},      // A100
    {8, 6, "sm_86", "sm80", "sm80"},      // RTX 30
    {8, 7, "sm_87", "sm80", "sm80"},      // Orin
    {8, 9, "sm_89", "sm80", "sm80"},      // L40S, L4, RTX 40
    {9, 0, "sm_90a", "sm90", "sm80"},     // H100, H200
    {10, 0, "sm_100a", "sm100", "sm80"},  // B200
    {10, 3, "sm_103a", "sm100", "sm80"},  // B300
    {12, 0, "sm_120a", "sm120", "sm80"},  // RTX 50
    {12, 1, "sm_121a", "sm120", "sm80"},  // GB10
};

}  // namespace

Result<Family> family_of(const Device& device) {
  std::string served;
  for (const Family& family : families) {
    if (family.major == device.major && family.minor == device.minor) return family;
    served += fmt::format("{}{}.{}", served.empty() ? "" : ", ", family.major, family.minor);
  }
  return Status(Code::unsupported, fmt::format("{} has compute capability {}.{}; served are {}",
                                               device.name, device.major, device.minor, served));
}

}  // namespace kda::device
