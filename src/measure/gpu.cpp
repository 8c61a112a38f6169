#include "measure/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "measure/failure.hpp"

namespace kda::measure {
namespace {

using launch::check;

CUdevice handle_of(const launch::Driver& driver, int ordinal) {
  CUdevice handle = 0;
  must(check(driver.DeviceGet(&handle, ordinal), "cuDeviceGet"));
  return handle;
}

}  // namespace

Gpu::Gpu(int ordinal)
    : driver_(must(launch::driver())),
      device_(must(device::query(ordinal))),
      context_(*driver_, handle_of(*driver_, device_.ordinal)) {
  must(context_.status());
  must(check(driver_->StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
}

Gpu::~Gpu() { driver_->StreamDestroy(stream_); }

void Gpu::synchronize() const {
  must(check(driver_->StreamSynchronize(stream_), "cuStreamSynchronize"));
}

std::size_t Gpu::free_bytes() const {
  std::size_t free = 0, total = 0;
  must(check(driver_->MemGetInfo(&free, &total), "cuMemGetInfo"));
  return free;
}

Buffer::Buffer(const Gpu& gpu, std::size_t bytes) : gpu_(&gpu), bytes_(bytes) {
  if (bytes == 0) return;
  const CUresult result = gpu.driver().MemAlloc(&at_, bytes);
  must(check(result, fmt::format("cuMemAlloc of {} bytes", bytes).c_str()));
}

Buffer::~Buffer() {
  if (at_ != 0) gpu_->driver().MemFree(at_);
}

void Buffer::upload(const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  must(
      check(gpu_->driver().MemcpyHtoDAsync(at_, host, bytes, gpu_->stream()), "cuMemcpyHtoDAsync"));
  gpu_->synchronize();
}

void Buffer::download(void* host, std::size_t bytes, std::size_t from) const {
  if (bytes == 0) return;
  must(check(gpu_->driver().MemcpyDtoHAsync(host, at_ + from, bytes, gpu_->stream()),
             "cuMemcpyDtoHAsync"));
  gpu_->synchronize();
}

void Buffer::copy_from(const Buffer& other) {
  if (bytes_ == 0) return;
  must(check(gpu_->driver().MemcpyDtoDAsync(at_, other.at_, bytes_, gpu_->stream()),
             "cuMemcpyDtoDAsync"));
}

void Buffer::fill(unsigned char byte) {
  if (bytes_ == 0) return;
  must(check(gpu_->driver().MemsetD8Async(at_, byte, bytes_, gpu_->stream()), "cuMemsetD8Async"));
}

void Buffer::tile(std::size_t bytes) {
  for (std::size_t done = bytes; done < bytes_; done *= 2) {
    must(check(gpu_->driver().MemcpyDtoDAsync(at_ + done, at_, std::min(done, bytes_ - done),
                                              gpu_->stream()),
               "cuMemcpyDtoDAsync"));
  }
}

}  // namespace kda::measure
