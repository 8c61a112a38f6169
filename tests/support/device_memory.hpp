// Device memory for tests: every block lies between canaries, and what was never written shows.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <vector>

#include "launch/driver.hpp"

namespace kda::test {

// 0xff is a NaN in every float type: of a fresh output it means "not written", beside an input it
// is a neighbour that must not be read.
inline constexpr unsigned char kPoison = 0xff;

// A device's primary context, current on the thread that makes it for its lifetime, and a stream.
// Its functions throw std::runtime_error with the driver's own words.
class Gpu {
 public:
  explicit Gpu(int ordinal = 0);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const launch::Driver& driver() const { return *driver_; }
  CUstream stream() const { return stream_; }
  // Waits; false once a kernel has broken the context: nothing after that can run.
  bool usable() const;
  void synchronize() const;
  // For another thread that works on this device.
  void make_current() const;

 private:
  const launch::Driver* driver_ = nullptr;
  int ordinal_;
  CUcontext before_ = nullptr, context_ = nullptr;
  CUstream stream_ = nullptr;
};

// Throws where the driver refused.
void must(CUresult result, const char* what);

// While one lives, new DeviceMemory poisons its canaries alone.
class LeaveUntouched {
 public:
  LeaveUntouched();
  ~LeaveUntouched();
  LeaveUntouched(const LeaveUntouched&) = delete;
  LeaveUntouched& operator=(const LeaveUntouched&) = delete;
};

// `bytes` of poison at an address that is `misalignment` bytes past a multiple of 256.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const Gpu& gpu, std::size_t bytes, std::size_t misalignment = 0);
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  void* data() const { return reinterpret_cast<void*>(base_ + front_); }
  std::size_t bytes() const { return bytes_; }

  void poison();
  void upload(const void* host);  // all of bytes()
  std::vector<std::byte> download() const;
  // Empty, or how many bytes of which canary changed.
  std::string canary_damage() const;

 private:
  const Gpu* gpu_ = nullptr;
  CUdeviceptr base_ = 0;
  std::size_t bytes_ = 0, front_ = 0, total_ = 0;
};

}  // namespace kda::test
