// What the tools' exit codes mean; kda-tune --help and kda-bench --help print them.
#pragma once

namespace kda::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       // a wrong result, a failed compile, an unhealthy machine
  kBadCommand = 2,   // an unknown word or option
  kNothingRan = 77,  // no device to run on
};

constexpr const char* kExitCodes =
    "Exit codes: 0 all is well; 1 something failed (a wrong result, a compile, a sick machine);\n"
    "2 the command line is wrong; 77 there is no device, so nothing was run.";

}  // namespace kda::cli
