// The man page, of the same text as --help.
#pragma once

#include <string>

#include "cli/synopsis.hpp"

namespace kda::cli {

// In man(7) macros; every subcommand is a subsection, and the library's environment is in it.
std::string manual(const Synopsis& synopsis);

}  // namespace kda::cli
