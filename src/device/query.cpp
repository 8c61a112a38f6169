#include <cuda.h>
#include <fmt/format.h>

#include <array>

#include "device/device.hpp"
#include "launch/driver.hpp"

namespace kda::device {
namespace {

constexpr double kUnsaidBandwidth = 5e11;  // bytes a second, where the driver names none

int ordinal_in_use(const launch::Driver& driver) {
  CUcontext current = nullptr;
  CUdevice device = 0;
  if (driver.CtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr &&
      driver.CtxGetDevice(&device) == CUDA_SUCCESS) {
    return device;  // a CUdevice is its ordinal
  }
  return 0;
}

// 0 where the driver does not say, which then is an error for what the planner cannot do without.
int attribute(const launch::Driver& driver, CUdevice device, CUdevice_attribute which,
              Status* needed = nullptr) {
  int value = 0;
  const CUresult result = driver.DeviceGetAttribute(&value, which, device);
  if (needed != nullptr && needed->ok()) *needed = launch::check(result, "cuDeviceGetAttribute");
  return result == CUDA_SUCCESS ? value : 0;
}

}  // namespace

Result<int> ordinal_of(int ordinal) {
  const Result<const launch::Driver*> found = launch::driver();
  if (!found) return found.status();
  return ordinal < 0 ? ordinal_in_use(**found) : ordinal;
}

Result<Device> query(int ordinal) {
  const Result<int> meant = ordinal_of(ordinal);
  if (!meant) return meant.status();
  ordinal = *meant;
  const Result<const launch::Driver*> found = launch::driver();
  if (!found) return found.status();
  const launch::Driver& driver = **found;

  int count = 0;
  if (Status status = launch::check(driver.DeviceGetCount(&count), "cuDeviceGetCount"); !status) {
    return status;
  }
  if (ordinal >= count) {
    return Status(Code::device_error,
                  fmt::format("device {} does not exist; {} {} visible (see CUDA_VISIBLE_DEVICES)",
                              ordinal, count, count == 1 ? "device is" : "devices are"));
  }
  CUdevice device = 0;
  std::array<char, 256> name = {};
  Status status = launch::check(driver.DeviceGet(&device, ordinal), "cuDeviceGet");
  if (status) {
    status = launch::check(driver.DeviceGetName(name.data(), name.size() - 1, device),
                           "cuDeviceGetName");
  }
  if (!status) return status;

  const auto need = [&](CUdevice_attribute which) {
    return attribute(driver, device, which, &status);
  };
  const auto get = [&](CUdevice_attribute which) { return attribute(driver, device, which); };
  const auto bytes = [](int value) { return static_cast<std::size_t>(value); };
  // Kilohertz and bits; memory sends twice a clock.  Some devices say neither.
  const double clock = 1e3 * get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  const double bus_bytes = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0;
  Device answer{
      .name = name.data(),
      .ordinal = ordinal,
      .major = need(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
      .minor = need(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
      .multiprocessors = need(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
      .shared_per_block = bytes(need(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)),
      .shared_per_multiprocessor =
          bytes(need(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)),
      .l2_bytes = bytes(get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)),
      .memory_bandwidth = clock * bus_bytes > 0 ? 2 * clock * bus_bytes : kUnsaidBandwidth};
  if (!status) return status;
  return answer;
}

}  // namespace kda::device
