// Shape and Tuning to the two lines that specialise a template.
#pragma once

#include <string>

#include "abi/shape.h"
#include "tunable/space.hpp"

namespace kda::compose {

// "#define KDA_SHAPE {.key_dim = 128, ...}\n#define KDA_TUNING {.chunk = 32, ...}\n"
std::string prelude(const abi::Shape& shape, const tunable::Values& tuning);

}  // namespace kda::compose
