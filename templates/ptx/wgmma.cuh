// wgmma: one warpgroup, D[64, N] (+)= A[64, 16] B[16, N], A in registers, B in shared memory.
#pragma once

#include "abi/dtype.h"
#include "base/compiler.cuh"
#include "base/types.cuh"

namespace kda::ptx {

// Registers written since the last wgmma are ordered before the next one.
KDA_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

KDA_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `pending` committed groups are in flight.
template <int pending>
KDA_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// A sum of what descriptors are made of, whose lower words do not overflow.  It is one addition;
// put together from two words it takes three instructions.  But the ptxas of CUDA 12.8 adds to the
// register of a place before it has copied the place there: products read the chunk before.
KDA_DEVICE u64 descriptor_sum(u64 a, u64 b) {
#if KDA_CUDA_SINCE(12, 8) && !KDA_CUDA_SINCE(12, 9)
  const u32 low = static_cast<u32>(a) + static_cast<u32>(b);
  const u32 high = static_cast<u32>(a >> 32) + static_cast<u32>(b >> 32);
  u64 sum;
  asm("mov.b64 %0, {%1, %2};" : "=l"(sum) : "r"(low), "r"(high));
  return sum;
#else
  return a + b;
#endif
}

// A place in shared memory in the units of descriptors.
struct WgmmaPlace {
  u64 units;

  KDA_DEVICE explicit WgmmaPlace(u32 address) : units((address & 0x3ffffU) >> 4) {}
  // Where the compiler does not see that it is the same for a whole warp.
  static KDA_DEVICE WgmmaPlace of_warp(u32 address) {
    WgmmaPlace place(address);
    place.units = __shfl_sync(0xffffffffU, static_cast<u32>(place.units), 0);
    return place;
  }

  KDA_DEVICE WgmmaPlace operator+(u32 bytes) const {
    WgmmaPlace place = *this;
    place.units = descriptor_sum(place.units, bytes >> 4);
    return place;
  }
};

// Where wgmma finds a tile in shared memory (tile/shared.cuh).
struct WgmmaTile {
  u64 first;  // descriptor

  // row_bytes is the tile's swizzle width.  leading and stride in bytes: for rows along k, stride
  // is 8 rows and leading unused; for rows along n (down), leading is one panel and stride 8 rows.
  KDA_DEVICE WgmmaTile(WgmmaPlace place, u32 row_bytes, u32 leading, u32 stride)
      : first(descriptor_sum(place.units, layout(row_bytes, leading, stride))) {}
  KDA_DEVICE WgmmaTile(u32 address, u32 row_bytes, u32 leading, u32 stride)
      : WgmmaTile(WgmmaPlace(address), row_bytes, leading, stride) {}

  // The descriptor of the operand that starts `bytes` further.
  KDA_DEVICE u64 at(u32 bytes) const { return descriptor_sum(first, bytes >> 4); }

 private:
  static KDA_DEVICE u64 layout(u32 row_bytes, u32 leading, u32 stride) {
    const u32 swizzle = row_bytes == 128 ? 1 : (row_bytes == 64 ? 2 : 3);
    return static_cast<u64>(stride >> 4 | swizzle << 30) << 32 | leading >> 4 << 16;
  }
};

// down: B's rows run along n instead of k.  sign: -1 takes A's negative.  accumulate: 0 overwrites
// D.
template <abi::DType type, int n, int down, int sign = 1>
struct wgmma_m64k16;

template <int down, int sign>
struct wgmma_m64k16<abi::DType::bf16, 16, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %13, 0; "
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, p, %15, 1, %14;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

template <int down, int sign>
struct wgmma_m64k16<abi::DType::bf16, 32, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %21, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, %23, 1, %22;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

template <int down, int sign>
struct wgmma_m64k16<abi::DType::bf16, 64, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, %39, 1, %38;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

template <int down, int sign>
struct wgmma_m64k16<abi::DType::bf16, 128, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, "
        "%37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, "
        "%55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, %71, 1, %70;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

template <int down, int sign>
struct wgmma_m64k16<abi::DType::f16, 16, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %13, 0; "
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, p, %15, 1, %14;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

template <int down, int sign>
struct wgmma_m64k16<abi::DType::f16, 32, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %21, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, %23, 1, %22;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

template <int down, int sign>
struct wgmma_m64k16<abi::DType::f16, 64, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, %39, 1, %38;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

template <int down, int sign>
struct wgmma_m64k16<abi::DType::f16, 128, down, sign> {
  static KDA_DEVICE void run(float* d, const u32* a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, "
        "%37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, "
        "%55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, %71, 1, %70;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(down),
          "n"(sign));
  }
};

}  // namespace kda::ptx
