#include "launch/module.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "launch/context.hpp"
#include "launch/driver.hpp"

namespace kda::launch {
namespace {

constexpr unsigned kPortableCluster = 8;  // CTAs; more must be asked for

class Library {
 public:
  explicit Library(CUlibrary library) : library_(library) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Errors are of no use here: at process exit the driver may be gone already.
  ~Library() {
    const Result<const Driver*> found = driver();
    if (!found) return;  // a forked child: the library is the parent's
    (void)(*found)->LibraryUnload(library_);
    for (const CUdevice device : primaries_) (void)(*found)->DevicePrimaryCtxRelease(device);
  }

  // In the current context, which is `context`'s.
  Result<CUkernel> prepare(const Driver& driver, const std::string& entry, CUdevice device,
                           std::size_t shared_bytes, unsigned cluster, ContextScope& context) {
    const std::lock_guard lock(mutex_);
    CUkernel kernel = nullptr;
    if (Status status = check(driver.LibraryGetKernel(&kernel, library_, entry.c_str()),
                              ("cuLibraryGetKernel " + entry).c_str());
        !status) {
      return status;
    }
    if (Status status = allow(driver, kernel, entry, device, shared_bytes, cluster); !status) {
      return status;
    }
    if (Status status = load_code(driver, kernel, entry); !status) return status;
    // Kept while the library is: when the last holder lets a context go, its code goes too.
    if (!std::count(primaries_.begin(), primaries_.end(), device) && context.take_primary()) {
      primaries_.push_back(device);
    }
    return kernel;
  }

 private:
  // Attributes hold for every plan that shares the kernel, so they only ever grow; set every time,
  // for the context may have been reset since.
  Status allow(const Driver& driver, CUkernel kernel, const std::string& entry, CUdevice device,
               std::size_t shared_bytes, unsigned cluster) {
    std::size_t& allowed = allowed_shared_[{kernel, device}];
    const std::size_t wanted = std::max(allowed, shared_bytes);
    if (wanted > 0) {
      const std::string what =
          fmt::format("{} with {} bytes of dynamic shared memory", entry, wanted);
      const CUresult result =
          driver.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(wanted), kernel, device);
      if (Status status = check(result, what.c_str()); !status) return status;
      allowed = wanted;
    }
    if (cluster <= kPortableCluster) return {};
    const std::string what = fmt::format("{} with {} CTAs a cluster", entry, cluster);
    return check(driver.KernelSetAttribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
                                           kernel, device),
                 what.c_str());
  }

  // Otherwise the driver loads lazily at the first launch, which a graph capture forbids.
  static Status load_code(const Driver& driver, CUkernel kernel, const std::string& entry) {
    CUfunction function = nullptr;
    if (Status status = check(driver.KernelGetFunction(&function, kernel),
                              ("cuKernelGetFunction " + entry).c_str());
        !status) {
      return status;
    }
    if (driver.FuncLoad != nullptr) {
      return check(driver.FuncLoad(function), ("cuFuncLoad " + entry).c_str());
    }
    int registers = 0;  // older drivers load it to answer this
    return check(driver.FuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
                 ("cuFuncGetAttribute " + entry).c_str());
  }

  CUlibrary library_;
  std::mutex mutex_;  // guards the rest
  std::map<std::pair<CUkernel, CUdevice>, std::size_t> allowed_shared_;
  std::vector<CUdevice> primaries_;
};

Result<std::shared_ptr<Library>> shared_library(const Driver& driver, const std::string& cubin) {
  static auto* mutex = new std::mutex;  // leaked, as the map: plans may outlive main
  static auto* libraries = new std::map<std::string, std::weak_ptr<Library>>;
  const std::string digest = base::digest(cubin);
  const std::lock_guard lock(*mutex);
  if (std::shared_ptr<Library> loaded = (*libraries)[digest].lock()) return loaded;
  CUlibrary library = nullptr;
  if (Status status = check(
          driver.LibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "cuLibraryLoadData");
      !status) {
    libraries->erase(digest);
    return status;
  }
  auto loaded = std::make_shared<Library>(library);
  (*libraries)[digest] = loaded;
  return loaded;
}

}  // namespace

Result<Module> Module::load(const std::string& cubin, const std::string& entry, int ordinal,
                            std::size_t shared_bytes, unsigned cluster) {
  const Result<const Driver*> found = driver();
  if (!found) return found.status();
  const Driver& calls = **found;
  CUdevice device = 0;
  const std::string what = fmt::format("cuDeviceGet {}", ordinal);
  if (Status status = check(calls.DeviceGet(&device, ordinal), what.c_str()); !status) {
    return status;
  }
  ContextScope context(calls, device);
  if (!context.status()) return context.status();
  Result<std::shared_ptr<Library>> library = shared_library(calls, cubin);
  if (!library) return library.status();
  const Result<CUkernel> kernel =
      (*library)->prepare(calls, entry, device, shared_bytes, cluster, context);
  if (!kernel) return kernel.status();
  Module module;
  module.library_ = *std::move(library);
  module.kernel_ = *kernel;
  return module;
}

}  // namespace kda::launch
