// The subcommands of kda-tune: each prints to request.output, answers the exit code, and throws
// Failure.
#pragma once

#include "tune/request.hpp"

namespace kda::tune_tool {

int doctor(const Request& request);   // is this machine fit, and what was found
int list(const Request& request);     // strategies, tunables, devices, cases
int build(const Request& request);    // compile without a GPU; what the kernels need
int explain(const Request& request);  // which strategy and tuning, and why
int tune(const Request& request);     // measure, choose and record
int worker(const Request& request);   // what tune starts to measure in; not for people
int dump(const Request& request);     // source, PTX, SASS, resources of one problem's kernels

}  // namespace kda::tune_tool
