// A context of the device, current in this thread for a scope.
#pragma once

#include <cuda.h>

#include "kda/status.hpp"
#include "launch/driver.hpp"

namespace kda::launch {

// Stays with the thread's own context where that is the device's and alive; else makes the device's
// primary context current and, at the end, restores what was there (if only nothing).  A context
// that was destroyed counts as none.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CUdevice device);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  const Status& status() const noexcept { return status_; }
  // Hands over a reference to the primary context, for the caller to release: false where the scope
  // runs in another context.
  bool take_primary() noexcept;

 private:
  bool on_device() const;
  bool alive() const;
  bool retain_if_primary(CUcontext context) const;

  const Driver& driver_;
  CUdevice device_;
  CUcontext before_ = nullptr;
  bool switched_ = false;
  bool retained_ = false;
  Status status_;
};

}  // namespace kda::launch
