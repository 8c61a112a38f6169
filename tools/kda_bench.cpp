// kda-bench: measures prefill on the GPU; see bench/request.cpp for its words.
#include "bench/request.hpp"

int main(int argc, char** argv) { return kda::bench::main_of_bench(argc, argv, stdout, stderr); }
