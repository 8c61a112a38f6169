// A strided tensor as the copy engine takes it, rows as [n, head, slab, token, channel of the slab]
// and states as state_box.h says: what the driver's cuTensorMapEncodeTiled writes for a run
// (src/launch/tensor_map.hpp), opaque to everybody else.
#pragma once

namespace kda::abi {

struct alignas(128) TensorMap {
  unsigned char bytes[128];
};

}  // namespace kda::abi
