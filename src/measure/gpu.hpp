// The device that is measured: its context, one stream, and memory on it.
#pragma once

#include <cstddef>
#include <utility>

#include "device/device.hpp"
#include "launch/context.hpp"
#include "launch/driver.hpp"

namespace kda::measure {

// Works in the thread's own context where that is the device's, else in its primary one, which
// stays current on this thread for the Gpu's life.  Throws Failure, as all here, where the device
// refuses.
class Gpu {
 public:
  explicit Gpu(int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const launch::Driver& driver() const { return *driver_; }
  const device::Device& device() const { return device_; }
  CUstream stream() const { return stream_; }
  void synchronize() const;
  std::size_t free_bytes() const;
  // False once a kernel has broken the context.
  bool usable() const { return driver_->StreamSynchronize(stream_) == CUDA_SUCCESS; }

 private:
  const launch::Driver* driver_;
  device::Device device_;
  launch::ContextScope context_;
  CUstream stream_ = nullptr;
};

// Device memory.  Copies are ordered on the Gpu's stream; those from and to the host wait.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Gpu& gpu, std::size_t bytes);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  // Null when there are no bytes.
  void* data() const { return reinterpret_cast<void*>(at_); }
  std::size_t bytes() const { return bytes_; }

  void upload(const void* host, std::size_t bytes);
  void download(void* host, std::size_t bytes, std::size_t from = 0) const;
  void copy_from(const Buffer& other);
  void fill(unsigned char byte);
  // Repeats its first `bytes` over the rest.
  void tile(std::size_t bytes);

 private:
  void swap(Buffer& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
  }

  const Gpu* gpu_ = nullptr;
  CUdeviceptr at_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace kda::measure
