// Arguments that several subcommands of kda-tune share.
#pragma once

#include <string>

#include "tune/request.hpp"

namespace CLI {
class App;
}

namespace kda::tune_tool {

using Command = int (*)(const Request&);

// What --arch is where it is not said and no device is found.
constexpr const char* kOneAbsent = "h200";              // explain, dump
constexpr const char* kSeveralAbsent = "sm_89,sm_90a";  // build, bundle create

// absent: one of these, or empty.
void add_archs(CLI::App& app, Request& request, const std::string& absent);
void add_configuration(CLI::App& app, Request& request);
void add_jobs(CLI::App& app, Request& request);

// What a subcommand prints: rows in a format that the user chooses, or lines of one form.
enum class Prints { rows, lines };

// A subcommand that prints: `chosen` becomes its function.
CLI::App* add_command(CLI::App& app, const char* name, const char* about, const char* examples,
                      Request& request, Command command, Command& chosen,
                      Prints prints = Prints::rows);

// cache ... and bundle ...
void add_cache_commands(CLI::App& app, Request& request, Command& chosen);
// wisdom ... and compare
void add_wisdom_commands(CLI::App& app, Request& request, Command& chosen);

}  // namespace kda::tune_tool
