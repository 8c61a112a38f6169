// A tool's command line as it was typed, and how every tool runs one.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace kda::cli {

// As a shell would read it back: words with blanks in quotes, and before them those variables that
// decide what is measured, where they are set.
std::string command_line(int argc, const char* const* argv);

// Parses, then calls body, which throws Failure or answers the exit code.  Help goes to out,
// complaints to err.
int run(CLI::App& app, int argc, const char* const* argv, std::FILE* out, std::FILE* err,
        const std::function<int()>& body);

}  // namespace kda::cli
