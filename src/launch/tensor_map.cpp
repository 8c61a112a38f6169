#include "launch/tensor_map.hpp"

#include <cuda.h>

#include <cstring>

#include "launch/driver.hpp"

namespace kda::launch {

static_assert(sizeof(CUtensorMap) == kTensorMapBytes && alignof(CUtensorMap) <= kTensorMapBytes);

namespace {

// Units of 16 bytes exchanged within rows of so many channels.
CUtensorMapSwizzle swizzle_of(std::uint32_t channels) {
  if (channels == 64) return CU_TENSOR_MAP_SWIZZLE_128B;
  return channels == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_32B;
}

}  // namespace

Status encode(const TensorBox& tensor, std::byte* map) {
  const Result<const Driver*> found = driver();
  if (!found) return found.status();
  constexpr std::uint32_t each[] = {1, 1, 1, 1, 1};
  CUtensorMap encoded;
  const CUresult result = (*found)->TensorMapEncodeTiled(
      &encoded, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5, const_cast<void*>(tensor.data),
      tensor.sizes.data(), tensor.strides.data(), tensor.box.data(), each,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(tensor.box[0]), CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return check(result, "cuTensorMapEncodeTiled");
  std::memcpy(map, &encoded, sizeof encoded);
  return {};
}

}  // namespace kda::launch
