// Words in global memory by which blocks tell each other that data is ready.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// What this thread has written, or seen written, is visible to whoever reads the word by acquire().
KDA_DEVICE void release(u32* word, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

KDA_DEVICE void release(u64* word, u64 value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

KDA_DEVICE u64 acquire(const u64* word) {
  u64 value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
KDA_DEVICE u32 acquire(const u32* word) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

// Orders this thread's accesses to global memory with its bulk copies there, both ways.
KDA_DEVICE void fence_async_proxy_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// Brings the line into the L2.
KDA_DEVICE void prefetch(const void* line) { asm volatile("prefetch.global.L2 [%0];" ::"l"(line)); }

}  // namespace kda::ptx
