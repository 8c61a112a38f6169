#include "launch/stream_memory.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/lazy.hpp"
#include "base/log.hpp"
#include "launch/driver.hpp"
#include "launch/relaxed_capture.hpp"

namespace kda::launch {
namespace {

struct Pools {
  std::mutex mutex;
  std::map<std::pair<unsigned, int>, CUmemoryPool> by_device;  // driver generation, ordinal
};

Pools& pools() {
  static constinit base::Lazy<Pools> pools;
  return pools.get();
}

Result<CUmemoryPool> make_pool(const Driver& driver, int ordinal) {
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = ordinal;
  const RelaxedCapture relaxed(driver);
  CUmemoryPool made = nullptr;
  if (Status status = check(driver.MemPoolCreate(&made, &props), "cuMemPoolCreate"); !status) {
    return status;
  }
  cuuint64_t kept = StreamMemory::kKept;
  if (Status status =
          check(driver.MemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept),
                "cuMemPoolSetAttribute");
      !status) {
    base::log::warn(status.message());  // slower, not wrong
  }
  return made;
}

Result<CUmemoryPool> pool_of(const Driver& driver, int ordinal) {
  Pools& all = pools();
  const std::lock_guard lock(all.mutex);
  CUmemoryPool& kept = all.by_device[{driver_generation(), ordinal}];
  if (kept == nullptr) {
    Result<CUmemoryPool> made = make_pool(driver, ordinal);
    if (!made) return made;
    kept = *made;
  }
  return kept;
}

// The one that died with its context leaves nothing to destroy.
void replace_pool(int ordinal, CUmemoryPool by) {
  Pools& all = pools();
  const std::lock_guard lock(all.mutex);
  all.by_device[{driver_generation(), ordinal}] = by;
}

bool may_be_lost(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

Result<StreamMemory> StreamMemory::take(int ordinal, std::size_t bytes, CUstream stream) {
  if (bytes == 0) return StreamMemory(0, stream);
  const Result<const Driver*> found = driver();
  if (!found) return found.status();
  const Driver& driver = **found;
  const Result<CUmemoryPool> pool = pool_of(driver, ordinal);
  if (!pool) return pool.status();
  CUdeviceptr at = 0;
  const CUresult result = driver.MemAllocFromPoolAsync(&at, bytes, *pool, stream);
  if (result == CUDA_SUCCESS) return StreamMemory(at, stream);
  if (may_be_lost(result)) {  // as are the pools of a device that was reset; or it is the stream
    const Result<CUmemoryPool> made = make_pool(driver, ordinal);
    if (made && driver.MemAllocFromPoolAsync(&at, bytes, *made, stream) == CUDA_SUCCESS) {
      replace_pool(ordinal, *made);
      return StreamMemory(at, stream);
    }
    if (made) driver.MemPoolDestroy(*made);
  }
  return check(result, fmt::format("cuMemAllocFromPoolAsync of {} bytes", bytes).c_str());
}

StreamMemory::~StreamMemory() {
  if (at_ == 0) return;
  const Result<const Driver*> found = driver();
  if (!found) return;
  if (Status status = check((*found)->MemFreeAsync(at_, stream_), "cuMemFreeAsync"); !status) {
    base::log::warn(status.message());
  }
}

}  // namespace kda::launch
