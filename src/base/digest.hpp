// The one content hash.  It finds damage and tells contents apart; it is no defence against
// forgery.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kda::base {

// XXH3-128 as so many lower-case hex digits.
constexpr std::size_t kDigestBytes = 32;
std::string digest(std::string_view bytes);

}  // namespace kda::base
