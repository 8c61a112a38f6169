// The kernels that searches look at first, compiled before anything is measured: on all cores, and
// in several processes, because NVRTC's front end serves one thread of a process at a time.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cli/subject.hpp"
#include "device/device.hpp"
#include "tune/request.hpp"

namespace kda::tune_tool {

struct Precompiled {
  std::size_t kernels = 0, total = 0;
  double seconds = 0;
  int processes = 1;
  std::string trouble;  // how a process ended that was not through; empty: none did
};

// on_progress: kernels done, of how many.  Ends early at `until` and on Ctrl-C; what does not
// compile is left for the search to say.
Precompiled precompile(const Request& request, const device::Device& device,
                       const std::vector<cli::Subject>& subjects,
                       std::chrono::steady_clock::time_point until,
                       const std::function<void(std::size_t, std::size_t)>& on_progress);

// A child process's part, --slice "2/8"; says "<done> <total>" a line.
int compile_slice(const Request& request, const device::Device& device,
                  const std::vector<cli::Subject>& subjects);

}  // namespace kda::tune_tool
