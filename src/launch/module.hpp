// A cubin on the device: its kernel, with attributes set once.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kda/status.hpp"

namespace kda::launch {

// Shares one loaded library a (cubin, process); cheap to copy.  Empty by default.
class Module {
 public:
  Module() = default;

  // Loads and looks up the entry, allows `shared_bytes` of dynamic shared memory on `ordinal`, and
  // loads the code now so that the first launch (and a graph capture) need not.
  static Result<Module> load(const std::string& cubin, const std::string& entry, int ordinal,
                             std::size_t shared_bytes, unsigned cluster);

  explicit operator bool() const noexcept { return kernel_ != nullptr; }
  void* kernel() const noexcept { return kernel_; }  // CUkernel

 private:
  std::shared_ptr<void> library_;
  void* kernel_ = nullptr;
};

}  // namespace kda::launch
