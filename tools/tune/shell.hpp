// The man page and the shells' completion of kda-tune, of the same text as its help.
#pragma once

#include <string>

#include "tune/request.hpp"

namespace CLI {
class App;
}

namespace kda::tune_tool {

// The subcommands manual and completion; they print what `app` holds when they run.
void add_shell_commands(CLI::App& app, Request& request);

// Whether one of them was asked for; then it has printed.
bool run_shell_command(const CLI::App& app, const Request& request);

}  // namespace kda::tune_tool
