// What of a template's text the compiler works on.
#pragma once

#include <string>
#include <string_view>

namespace kda::compose {

// The text without comments, blank lines and blanks at the end of lines.
std::string code_of(std::string_view text);

}  // namespace kda::compose
