// A context of the device, current in this thread for a scope.
#pragma once

#include <cuda.h>

#include <optional>

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
  bool retain_if_primary(CUcontext context) const;

  const Driver& driver_;
  CUdevice device_;
  CUcontext before_ = nullptr;
  bool switched_ = false;
  bool retained_ = false;
  Status status_;
};

// A context by what no later one has again: a handle may come back, of a device that was reset say.
struct ContextName {
  CUcontext handle = nullptr;
  unsigned long long id = 0;

  bool operator==(const ContextName&) const = default;
};
// Of the one that is current in this thread; none where there is none, or the driver cannot tell.
std::optional<ContextName> current_context(const Driver& driver);
// Whether what was made in it is still there.
bool alive(const Driver& driver, const ContextName& name);

}  // namespace kda::launch
