// The one content hash.  It finds damage and tells contents apart; it is no defence against
// forgery.
#pragma once

#include <string>
#include <string_view>

namespace kda::base {

// XXH3-128 as 32 lower-case hex digits.
std::string digest(std::string_view bytes);

}  // namespace kda::base
