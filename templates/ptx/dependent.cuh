// Programmatic dependent launch (sm_90 and up; before that, kernels simply follow each other).
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// The next kernel of the stream may start once every block has come here or ended.
KDA_DEVICE void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernel before has ended and its writes are visible.
KDA_DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace kda::ptx
