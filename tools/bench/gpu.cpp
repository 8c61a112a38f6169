#include "bench/gpu.hpp"

#include <fmt/format.h>

#include "cli/failure.hpp"

namespace kda::bench {
namespace {

using cli::Failure;
using cli::must;
using launch::check;

template <class T>
T device_or_leave(Result<T> result) {
  if (!result) throw Failure(cli::kNothingRan, "nothing was run: " + result.status().message());
  return *std::move(result);
}

}  // namespace

Gpu::Gpu(int ordinal)
    : driver_(device_or_leave(launch::driver())), device_(device_or_leave(device::query(ordinal))) {
  CUcontext context = nullptr;
  must(check(driver_->DeviceGet(&handle_, device_.ordinal), "cuDeviceGet"));
  must(check(driver_->DevicePrimaryCtxRetain(&context, handle_), "cuDevicePrimaryCtxRetain"));
  must(check(driver_->CtxSetCurrent(context), "cuCtxSetCurrent"));
  must(check(driver_->StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
}

Gpu::~Gpu() {
  driver_->StreamDestroy(stream_);
  driver_->DevicePrimaryCtxRelease(handle_);
}

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

void Buffer::download(void* host, std::size_t bytes) const {
  if (bytes == 0) return;
  must(
      check(gpu_->driver().MemcpyDtoHAsync(host, at_, bytes, gpu_->stream()), "cuMemcpyDtoHAsync"));
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

}  // namespace kda::bench
