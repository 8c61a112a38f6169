#include "launch/module.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/lazy.hpp"
#include "launch/context.hpp"
#include "launch/driver.hpp"
#include "launch/relaxed_capture.hpp"

namespace kda::launch {
namespace {

constexpr unsigned kPortableCluster = 8;  // CTAs; more must be asked for

// Keeps a device's primary context while it lives.
class Lease {
 public:
  explicit Lease(CUdevice device) : device_(device) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const Result<const Driver*> found = driver();
    if (!found) return;
    const RelaxedCapture relaxed(**found);
    (void)(*found)->DevicePrimaryCtxRelease(device_);
  }

 private:
  CUdevice device_;
};

}  // namespace

class Module::Library {
 public:
  explicit Library(CUlibrary library) : library_(library) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Errors are of no use here: at process exit the driver may be gone already.
  ~Library() {
    const Result<const Driver*> found = driver();
    if (!found) return;  // in a forked child: it is the parent's
    const RelaxedCapture relaxed(**found);
    (void)(*found)->LibraryUnload(library_);
  }

  Result<CUkernel> find(const Driver& driver, const std::string& entry) const {
    CUkernel kernel = nullptr;
    if (Status status = check(driver.LibraryGetKernel(&kernel, library_, entry.c_str()),
                              ("cuLibraryGetKernel " + entry).c_str());
        !status) {
      return status;
    }
    return kernel;
  }

  // In the current context, which is `context`'s.
  Status make_ready(const Driver& driver, CUdevice device, ContextScope& context, Module& module) {
    const std::lock_guard lock(mutex_);
    auto* kernel = static_cast<CUkernel>(module.kernel_);
    if (Status status = allow(driver, kernel, device, module); !status) return status;
    if (Status status = load_code(driver, kernel); !status) return status;
    // When the last holder lets a context go, its code goes too.
    std::weak_ptr<Lease>& lease = leases_[device];
    std::shared_ptr<Lease> held = lease.lock();
    if (!held && context.take_primary()) lease = held = std::make_shared<Lease>(device);
    module.context_ = std::move(held);
    return {};
  }

 private:
  // Attributes hold for every plan that shares the kernel, so they only ever grow; set every time,
  // for the context may have been reset since.
  Status allow(const Driver& driver, CUkernel kernel, CUdevice device, const Module& module) {
    std::size_t& allowed = allowed_shared_[{kernel, device}];
    const std::size_t wanted = std::max(allowed, module.shared_bytes_);
    if (wanted > 0) {
      const CUresult result =
          driver.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(wanted), kernel, device);
      if (result != CUDA_SUCCESS) {
        return check(
            result, fmt::format("cuKernelSetAttribute of {} bytes of dynamic shared memory", wanted)
                        .c_str());
      }
      allowed = wanted;
    }
    if (module.cluster_ <= kPortableCluster) return {};
    const CUresult result = driver.KernelSetAttribute(
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, kernel, device);
    if (result == CUDA_SUCCESS) return {};
    return check(result,
                 fmt::format("cuKernelSetAttribute of {} CTAs a cluster", module.cluster_).c_str());
  }

  // Otherwise the driver loads lazily at the first launch, which a graph capture forbids.
  static Status load_code(const Driver& driver, CUkernel kernel) {
    CUfunction function = nullptr;
    if (Status status = check(driver.KernelGetFunction(&function, kernel), "cuKernelGetFunction");
        !status) {
      return status;
    }
    if (driver.FuncLoad != nullptr) return check(driver.FuncLoad(function), "cuFuncLoad");
    int registers = 0;  // older drivers load it to answer this
    return check(driver.FuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
                 "cuFuncGetAttribute");
  }

  CUlibrary library_;
  std::mutex mutex_;  // guards the rest
  std::map<std::pair<CUkernel, CUdevice>, std::size_t> allowed_shared_;
  std::map<CUdevice, std::weak_ptr<Lease>> leases_;
};

namespace {

template <class Library>
struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Library>> libraries;  // by their cubins' digests
};

// Of the cubin, loaded once a process.
template <class Library>
Result<std::shared_ptr<Library>> shared_library(const Driver& driver, const std::string& cubin) {
  static constinit base::Lazy<Loaded<Library>> of_process;  // plans may outlive main
  Loaded<Library>& from = of_process.get();
  const std::string digest = base::digest(cubin);
  const std::lock_guard lock(from.mutex);
  if (std::shared_ptr<Library> loaded = from.libraries[digest].lock()) return loaded;
  CUlibrary library = nullptr;
  if (Status status = check(
          driver.LibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "cuLibraryLoadData");
      !status) {
    from.libraries.erase(digest);
    return status;
  }
  auto loaded = std::make_shared<Library>(library);
  from.libraries[digest] = loaded;
  return loaded;
}

Result<CUdevice> device_at(const Driver& driver, int ordinal) {
  CUdevice device = 0;
  const CUresult result = driver.DeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) return device;
  return check(result, fmt::format("cuDeviceGet {}", ordinal).c_str());
}

Status about(const std::string& entry, const Status& status) {
  return {status.code(), entry + ": " + status.message()};
}

}  // namespace

Result<Module> Module::load(const std::string& cubin, const std::string& entry, int ordinal,
                            std::size_t shared_bytes, unsigned cluster) {
  const Result<const Driver*> found = driver();
  if (!found) return found.status();
  const Driver& calls = **found;
  const Result<CUdevice> device = device_at(calls, ordinal);
  if (!device) return device.status();
  const RelaxedCapture relaxed(calls);
  ContextScope context(calls, *device);
  if (!context.status()) return context.status();
  Result<std::shared_ptr<Library>> library = shared_library<Library>(calls, cubin);
  if (!library) return library.status();
  const Result<CUkernel> kernel = (*library)->find(calls, entry);
  if (!kernel) return kernel.status();
  Module module;
  module.library_ = *std::move(library);
  module.kernel_ = *kernel;
  module.shared_bytes_ = shared_bytes;
  module.cluster_ = cluster;
  const Status ready = module.library_->make_ready(calls, *device, context, module);
  if (!ready) return about(entry, ready);
  return module;
}

Module Module::parked() const {
  Module module = *this;
  module.context_ = nullptr;
  return module;
}

Status Module::renew(std::span<Module> modules, int ordinal) {
  const Result<const Driver*> found = driver();
  if (!found) return found.status();
  const Result<CUdevice> device = device_at(**found, ordinal);
  if (!device) return device.status();
  const RelaxedCapture relaxed(**found);
  ContextScope context(**found, *device);
  if (!context.status()) return context.status();
  for (Module& module : modules) {
    if (Status status = module.library_->make_ready(**found, *device, context, module); !status) {
      return status;
    }
  }
  return {};
}

}  // namespace kda::launch
