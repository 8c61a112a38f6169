// What kda-tune was asked for.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/document.hpp"
#include "tune/wisdom.hpp"

namespace kda::tune_tool {

struct Request {
  cli::Output output;
  std::string cache_dir;              // empty: as the library
  std::vector<std::string> problems;  // case and model names and words, as typed
  int tp = 0;                         // devices that split a model's heads; 0: not said
  std::vector<std::string> archs;     // "sm_90a", "h200", ...; empty: the device present
  std::vector<std::string> strategies, tunings;
  bool every_tuning = false;  // build: the whole space
  unsigned jobs = 0;          // build: compiles at once; 0: as many as cores

  bool kernels = false;  // doctor: run them

  // tune
  int device = -1;           // worker too
  std::vector<int> devices;  // to measure on at once; empty: `device`, or every visible one
  std::string wisdom_dir;    // empty: as the library
  std::string method = "halving";
  double seconds = 0;  // for all problems together; 0: no limit
  int max_evals = 0;   // a problem; 0: no limit
  std::uint64_t seed = 1;
  bool resume = false;
  std::vector<std::string> arguments;  // the command line, for child processes that compile ...
  std::string slice;                   // ... a part each: "2/8"
  unsigned processes = 0;              // of those; 0: as many as cores are good for

  // cache, bundle
  std::string key;          // the first digits of an entry's digest
  std::string bundle_file;  // the bundle's path
  std::string max_size;     // gc: "500M"; empty: as the library
  bool remove = false;      // verify: damaged entries
  bool from_cache = false;  // bundle create: what the cache holds

  // wisdom, compare
  std::vector<std::string> files;
  bool own = false;      // nothing shared or shipped
  bool lenient = false;  // pass over damaged lines
  tune::Prune prune;
  double threshold_percent = 1;
  std::vector<std::string> fail_on;  // verdicts

  std::string plot;   // tune, plot: the page's file; empty: none
  std::string shell;  // completion

  // dump
  std::string stage;  // empty: all
  bool source = false, ptx = false, sass = false, resources = false;
};

// kda-tune itself: parses, runs the subcommand, answers the exit code.
int main_of_tune(int argc, const char* const* argv, std::FILE* out, std::FILE* err);

}  // namespace kda::tune_tool
