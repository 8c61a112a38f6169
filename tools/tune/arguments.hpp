// Arguments that several subcommands of kda-tune share.
#pragma once

#include "tune/request.hpp"

namespace CLI {
class App;
}

namespace kda::tune_tool {

using Command = int (*)(const Request&);

void add_output(CLI::App& app, Request& request);
void add_configuration(CLI::App& app, Request& request);
void add_jobs(CLI::App& app, Request& request);

// A subcommand that prints: `chosen` becomes its function.
CLI::App* add_command(CLI::App& app, const char* name, const char* about, const char* examples,
                      Request& request, Command command, Command& chosen);

// cache ... and bundle ...
void add_cache_commands(CLI::App& app, Request& request, Command& chosen);
// wisdom ... and compare
void add_wisdom_commands(CLI::App& app, Request& request, Command& chosen);

}  // namespace kda::tune_tool
