// Completion of a tool's command line in bash, zsh and fish, of the same text as --help.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/synopsis.hpp"
#include "kda/status.hpp"

namespace kda::cli {

// What may stand where --help says "CASE|WORDS", "STRATEGY", ...; values named FILE and DIR are
// completed by the shell.
using Vocabulary = std::map<std::string, std::vector<std::string>>;

// The script to source.  Fails with invalid_argument, naming the shells.
Result<std::string> completion(const Synopsis& synopsis, std::string_view shell,
                               const Vocabulary& vocabulary);

}  // namespace kda::cli
