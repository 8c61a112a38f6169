// Several searches over several devices, within one limit of time.
#pragma once

#include <vector>

#include "cli/rows.hpp"
#include "cli/subject.hpp"
#include "device/device.hpp"
#include "tune/request.hpp"

namespace kda::tune_tool {

// The devices that measure: those named; else every visible one that is like `first`.
std::vector<int> devices_of(const Request& request, const device::Device& first);

// Of the limit, what a problem gets relatively: inputs and references of long ones take time.
double weight_of(const cli::Subject& subject);

// First compiles what the searches look at first, then runs them: one problem on all devices, or
// several problems, each on its own.  A row a problem, in their order; those that no time was left
// for say so.
cli::Json run_campaign(const Request& request, const device::Device& device,
                       const std::vector<int>& ordinals, const std::vector<cli::Subject>& subjects);

}  // namespace kda::tune_tool
