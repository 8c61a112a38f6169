// kda-tune as a call of the test's own process.
#pragma once

#include <string>
#include <vector>

#include "tools/run_tool.hpp"
#include "tune/request.hpp"

namespace kda::test {

inline Ran kda_tune(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "kda-tune");
  return run_tool(&tune_tool::main_of_tune, arguments);
}

}  // namespace kda::test
