// What kda-bench was asked for.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace kda::bench {

constexpr const char* kLinear = "linear";
constexpr const char* kDecode = "decode";
constexpr const char* kServing = "serving";
constexpr const char* kOriginal = "original";

struct Request {
  std::vector<std::string> problems;    // case and model names and words, as typed
  int tp = 0;                           // devices that split a model's heads; 0: not said
  std::string suite;                    // "prefill", one of the above or empty
  std::vector<std::string> regimes;     // empty: all three for the suite prefill, else strong
  std::vector<std::string> strategies;  // empty: the planner's choice
  std::vector<std::string> tunings;     // in words, lists not yet expanded; empty: the defaults

  int repeats = 15;
  int calls = 5;           // in a graph at least
  int heads = 2;           // verified, a problem
  double time_budget = 0;  // seconds; 0: none
  std::uint64_t seed = 1;
  std::optional<double> beta;  // of every token; none: drawn
  bool list = false, quick = false, profile = false, quiet = false;
  bool compile_times = true;

  int device = -1;
  std::string cache_dir;

  std::string json, md, csv;  // files, "-" for stdout; all empty: the table on stdout

  std::string command;  // the line as typed
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

// kda-bench itself: parses, measures, prints.  Answers the exit code.
int main_of_bench(int argc, const char* const* argv, std::FILE* out, std::FILE* err);

}  // namespace kda::bench
