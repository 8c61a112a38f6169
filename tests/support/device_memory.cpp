#include "support/device_memory.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace kda::test {
namespace {

constexpr std::size_t kCanary = 512;  // bytes before and after, at least

bool untouched = false;  // a LeaveUntouched lives

std::size_t changed(const std::vector<std::byte>& bytes) {
  return static_cast<std::size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{kPoison}; }));
}

}  // namespace

void must(CUresult result, const char* what) {
  if (const Status status = launch::check(result, what); !status)
    throw std::runtime_error(status.message());
}

Gpu::Gpu(int ordinal) : ordinal_(ordinal) {
  const Result<const launch::Driver*> driver = launch::driver();
  if (!driver) throw std::runtime_error(driver.status().message());
  driver_ = *driver;
  must(driver_->CtxGetCurrent(&before_), "cuCtxGetCurrent");
  must(driver_->DevicePrimaryCtxRetain(&context_, ordinal), "cuDevicePrimaryCtxRetain");
  make_current();
  must(driver_->StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Gpu::~Gpu() {
  (void)driver_->StreamDestroy(stream_);
  (void)driver_->CtxSetCurrent(before_);
  (void)driver_->DevicePrimaryCtxRelease(ordinal_);
}

bool Gpu::usable() const { return driver_->CtxSynchronize() == CUDA_SUCCESS; }

void Gpu::synchronize() const { must(driver_->CtxSynchronize(), "cuCtxSynchronize"); }

void Gpu::make_current() const { must(driver_->CtxSetCurrent(context_), "cuCtxSetCurrent"); }

LeaveUntouched::LeaveUntouched() { untouched = true; }
LeaveUntouched::~LeaveUntouched() { untouched = false; }

DeviceMemory::DeviceMemory(const Gpu& gpu, std::size_t bytes, std::size_t misalignment)
    : gpu_(&gpu), bytes_(bytes), front_(kCanary + misalignment), total_(front_ + bytes + kCanary) {
  must(gpu.driver().MemAlloc(&base_, total_), "cuMemAlloc");
  must(gpu.driver().MemsetD8(base_, kPoison, front_), "cuMemsetD8");
  must(gpu.driver().MemsetD8(base_ + front_ + bytes_, kPoison, kCanary), "cuMemsetD8");
  poison();
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(front_, other.front_);
  std::swap(total_, other.total_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (base_ != 0) (void)gpu_->driver().MemFree(base_);
}

void DeviceMemory::poison() {
  if (bytes_ == 0 || untouched) return;
  must(gpu_->driver().MemsetD8(base_ + front_, kPoison, bytes_), "cuMemsetD8");
}

void DeviceMemory::upload(const void* host) {
  if (bytes_ > 0) must(gpu_->driver().MemcpyHtoD(base_ + front_, host, bytes_), "cuMemcpyHtoD");
}

std::vector<std::byte> DeviceMemory::download() const {
  std::vector<std::byte> out(bytes_);
  if (bytes_ > 0)
    must(gpu_->driver().MemcpyDtoH(out.data(), base_ + front_, bytes_), "cuMemcpyDtoH");
  return out;
}

std::string DeviceMemory::canary_damage() const {
  std::vector<std::byte> front(front_), back(kCanary);
  must(gpu_->driver().MemcpyDtoH(front.data(), base_, front.size()), "cuMemcpyDtoH");
  must(gpu_->driver().MemcpyDtoH(back.data(), base_ + front_ + bytes_, back.size()),
       "cuMemcpyDtoH");
  if (changed(front) + changed(back) == 0) return {};
  return std::to_string(changed(front)) + " bytes before and " + std::to_string(changed(back)) +
         " bytes after were written";
}

}  // namespace kda::test
