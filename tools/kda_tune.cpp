// kda-tune: looks into what the library chooses, composes and compiles; see tune/request.cpp.
#include <string_view>

#include "cli/warnings.hpp"
#include "tune/request.hpp"

int main(int argc, char** argv) {
  // A worker's are those of the search that has begun it.
  if (argc < 2 || std::string_view(argv[1]) != "worker") kda::cli::show_warnings();
  return kda::tune_tool::main_of_tune(argc, argv, stdout, stderr);
}
