// Buffer sets that calls take in turn, so that none finds its inputs in the L2.
#pragma once

namespace kda::measure {

// How many sets of so many bytes: their sum is far past the L2, but within free_bytes; 0 when not
// even one fits.
int rotation(double set_bytes, double l2_bytes, double free_bytes);

}  // namespace kda::measure
