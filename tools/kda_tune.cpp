// kda-tune: looks into what the library chooses, composes and compiles; see tune/request.cpp.
#include "tune/request.hpp"

int main(int argc, char** argv) { return kda::tune_tool::main_of_tune(argc, argv, stdout, stderr); }
