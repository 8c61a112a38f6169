#include "launch/context.hpp"

namespace kda::launch {
namespace {

// cuCtxGetDevice answers for a destroyed context as for any other; making something in it does not.
bool current_is_alive(const Driver& driver) {
  CUevent event = nullptr;
  const CUresult made = driver.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (made == CUDA_SUCCESS) (void)driver.EventDestroy(event);
  return made != CUDA_ERROR_CONTEXT_IS_DESTROYED && made != CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

ContextScope::ContextScope(const Driver& driver, CUdevice device)
    : driver_(driver), device_(device) {
  status_ = check(driver.CtxGetCurrent(&before_), "cuCtxGetCurrent");
  if (!status_) return;
  if (before_ != nullptr && on_device()) {
    if (current_is_alive(driver)) {
      retained_ = retain_if_primary(before_);
      return;
    }
    before_ = nullptr;
  }
  CUcontext primary = nullptr;
  status_ = check(driver.DevicePrimaryCtxRetain(&primary, device), "cuDevicePrimaryCtxRetain");
  if (!status_) return;
  retained_ = true;
  status_ = check(driver.CtxSetCurrent(primary), "cuCtxSetCurrent");
  switched_ = status_.ok();
}

ContextScope::~ContextScope() {
  // What was there may itself be gone: then none is current, rather than one of ours.
  if (switched_ && driver_.CtxSetCurrent(before_) != CUDA_SUCCESS) {
    (void)driver_.CtxSetCurrent(nullptr);
  }
  if (retained_) (void)driver_.DevicePrimaryCtxRelease(device_);
}

// Of the context current in this thread.
bool ContextScope::on_device() const {
  CUdevice current = -1;
  return driver_.CtxGetDevice(&current) == CUDA_SUCCESS && current == device_;
}

// Takes a reference where it is.  Asks first: to retain an inactive one would create it.
bool ContextScope::retain_if_primary(CUcontext context) const {
  unsigned flags = 0;
  int active = 0;
  CUcontext primary = nullptr;
  if (driver_.DevicePrimaryCtxGetState(device_, &flags, &active) != CUDA_SUCCESS || active == 0 ||
      driver_.DevicePrimaryCtxRetain(&primary, device_) != CUDA_SUCCESS) {
    return false;
  }
  if (primary == context) return true;
  (void)driver_.DevicePrimaryCtxRelease(device_);
  return false;
}

bool ContextScope::take_primary() noexcept {
  const bool taken = retained_;
  retained_ = false;
  return taken;
}

std::optional<ContextName> current_context(const Driver& driver) {
  ContextName name;
  if (driver.CtxGetId == nullptr || driver.CtxGetCurrent(&name.handle) != CUDA_SUCCESS ||
      name.handle == nullptr || driver.CtxGetId(name.handle, &name.id) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return name;
}

bool alive(const Driver& driver, const ContextName& name) {
  CUcontext before = nullptr;
  if (driver.CtxGetCurrent(&before) != CUDA_SUCCESS ||
      driver.CtxSetCurrent(name.handle) != CUDA_SUCCESS) {
    return false;
  }
  const bool alive = current_is_alive(driver) && current_context(driver) == name;
  if (driver.CtxSetCurrent(before) != CUDA_SUCCESS) (void)driver.CtxSetCurrent(nullptr);
  return alive;
}

}  // namespace kda::launch
