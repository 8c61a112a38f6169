// Tensors as [N, H, T, channels]: what kda_prefill_f32 takes, where the tools make [N, T, H,
// channels].
#pragma once

#include "reference/tensors.hpp"

namespace kda::bench {

// [N, A, B, row] as [N, B, A, row]; row in bytes.
reference::Bytes swapped(const reference::Bytes& from, std::size_t N, std::size_t A, std::size_t B);

}  // namespace kda::bench
