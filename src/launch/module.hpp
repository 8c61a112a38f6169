// A cubin on the device: its kernel, with attributes set once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
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

  // For keeping beyond the plans that run it: the library stays loaded, which needs no context, and
  // no context is held.  Not to be launched; a copy is made ready by renew().
  Module parked() const;

  // As load() left each of them, once more and in the context that the thread has now: the former
  // one may be gone, and its code with it.
  static Status renew(std::span<Module> modules, int ordinal);

  explicit operator bool() const noexcept { return kernel_ != nullptr; }
  void* kernel() const noexcept { return kernel_; }  // CUkernel

 private:
  class Library;

  std::shared_ptr<void> context_;  // a reference to the primary one, where the code lives in it
  std::shared_ptr<Library> library_;
  void* kernel_ = nullptr;
  std::size_t shared_bytes_ = 0;
  unsigned cluster_ = 1;
};

}  // namespace kda::launch
