// What kda-tune was asked for.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cli/document.hpp"

namespace kda::tune_tool {

struct Request {
  cli::Output output;
  std::string cache_dir;              // empty: as the library
  std::vector<std::string> problems;  // case names and words, as typed
  std::vector<std::string> archs;     // "sm_90a", "h200", ...; empty: the device present
  std::vector<std::string> strategies, tunings;
  bool every_tuning = false;  // build: the whole space
  unsigned jobs = 0;          // build: compiles at once; 0: as many as cores

  // dump
  std::string stage;  // empty: all
  bool source = false, ptx = false, sass = false, resources = false;
};

// kda-tune itself: parses, runs the subcommand, answers the exit code.
int main_of_tune(int argc, const char* const* argv, std::FILE* out, std::FILE* err);

}  // namespace kda::tune_tool
