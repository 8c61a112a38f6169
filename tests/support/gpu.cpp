#include "support/gpu.hpp"

#include <dlfcn.h>

#include "support/catch.hpp"

namespace kda::test {

std::string why_no_gpu() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "there is no CUDA driver (libcuda.so.1)";
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(library, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return "libcuda.so.1 lacks cuInit or cuDeviceGetCount";
  if (const int result = init(0); result != 0) return "cuInit returned " + std::to_string(result);
  int devices = 0;
  if (count(&devices) != 0 || devices == 0) return "the CUDA driver sees no device";
  return {};
}

bool on_device() {
  const std::string reason = why_no_gpu();
  if (!reason.empty()) WARN("skipped: " << reason);
  return reason.empty();
}

}  // namespace kda::test
