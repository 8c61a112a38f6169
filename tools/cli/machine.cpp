#include "cli/machine.hpp"

#include <fmt/format.h>

#include <ctime>
#include <fstream>

#include "cli/build_info.hpp"
#include "compile/nvrtc.hpp"
#include "launch/driver.hpp"

namespace kda::cli {
namespace {

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

std::string driver_text() {
  const Result<const launch::Driver*> driver = launch::driver();
  if (!driver) return "none";
  const int version = (*driver)->version;
  const std::string cuda = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  std::ifstream file("/sys/module/nvidia/version");
  std::string release;
  return file >> release ? release + ", " + cuda : cuda;
}

Machine machine_of(const device::Device& device) {
  const Result<std::string> nvrtc = compile::identity();
  return {.device = device.name,
          .capability = fmt::format("{}.{}", device.major, device.minor),
          .multiprocessors = device.multiprocessors,
          .driver = driver_text(),
          .nvrtc = nvrtc ? *nvrtc : "none",
          .version = version(),
          .commit = commit(),
          .date = now()};
}

}  // namespace kda::cli
