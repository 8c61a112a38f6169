// A chunk's decay in its image: of 16 channels, the two pairs that a lane of the state's tiles has
// lie side by side, so that it reads them at once.
#pragma once

#include "base/types.cuh"

namespace kda::tile {

// Where channel c's stands.
KDA_DEVICE int decay_place(int c) { return c / 16 * 16 + c % 8 / 2 * 4 + c % 16 / 8 * 2 + c % 2; }

}  // namespace kda::tile
