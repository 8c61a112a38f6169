// What the copy engine of sm_90 has to know of a tensor: a map in a kernel's arguments
// (templates/abi/tensor_map.h).
#pragma once

#include <cstddef>

#include "base/tensor_box.hpp"
#include "kda/status.hpp"

namespace kda::launch {

constexpr std::size_t kTensorMapBytes = 128;

// Writes the map of a tensor whose rows begin at multiples of 16 bytes.  In shared memory a box's
// rows follow one another, their 16-byte units exchanged as templates/tile/shared.cuh has them;
// elements past the tensor's ends are zeros.  Neither allocates nor touches the device.
// device_error: what the driver refuses.
Status encode(const TensorBox& tensor, std::byte* map);

}  // namespace kda::launch
