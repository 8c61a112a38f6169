// kda-bench: measures prefill on the GPU; see bench/request.cpp for its words.
#include "bench/request.hpp"
#include "cli/warnings.hpp"

int main(int argc, char** argv) {
  kda::cli::show_warnings();
  return kda::bench::main_of_bench(argc, argv, stdout, stderr);
}
