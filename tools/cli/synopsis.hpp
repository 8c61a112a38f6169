// A command line as data: what --help says, for the man page and the shells' completion.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kda::cli {

struct Argument {
  std::vector<std::string> names;  // "-o", "--format"; of a positional its one name
  std::string value;               // "FILE|-"; empty: a flag
  std::vector<std::string> choices;
  std::string about, fallback;  // fallback: the default, where help shows one
  bool positional = false;
  bool many = false;  // a positional that may be repeated
};

struct Synopsis {
  std::string name;  // "kda-tune wisdom ls"
  std::string about;
  std::string more;  // below the options: examples, exit codes
  std::vector<Argument> arguments;
  std::vector<Synopsis> commands;
};

// Hidden options and subcommands are left out.
Synopsis synopsis_of(const CLI::App& app);

// "kda-tune tune [OPTIONS] [CASE|WORDS...]"
std::string usage_of(const Synopsis& synopsis);

}  // namespace kda::cli
