#include "launch/context.hpp"

namespace kda::launch {

ContextScope::ContextScope(const Driver& driver, CUdevice device)
    : driver_(driver), device_(device) {
  status_ = check(driver.CtxGetCurrent(&before_), "cuCtxGetCurrent");
  if (!status_) return;
  CUdevice current = -1;
  if (before_ != nullptr && driver.CtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
    return;
  }
  CUcontext primary = nullptr;
  status_ = check(driver.DevicePrimaryCtxRetain(&primary, device), "cuDevicePrimaryCtxRetain");
  if (!status_) return;
  retained_ = true;
  status_ = check(driver.CtxSetCurrent(primary), "cuCtxSetCurrent");
  switched_ = status_.ok();
}

ContextScope::~ContextScope() {
  if (switched_) (void)driver_.CtxSetCurrent(before_);
  if (retained_) (void)driver_.DevicePrimaryCtxRelease(device_);
}

bool ContextScope::take_primary() noexcept {
  const bool taken = retained_;
  retained_ = false;
  return taken;
}

}  // namespace kda::launch
