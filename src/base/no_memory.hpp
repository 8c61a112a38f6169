// What is said where memory has run out: made while there was some.
#pragma once

#include "kda/status.hpp"

namespace kda::base {

const Status& no_memory() noexcept;

}  // namespace kda::base
