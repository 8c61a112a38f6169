// Problem to a frozen, runnable plan: the only room that knows all the others.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "kda/kda.hpp"
#include "plan/choose.hpp"
#include "program/program.hpp"

namespace kda {

struct Plan::Impl {
  Problem problem;  // complete
  device::Device device;
  plan::Choice choice;  // its recipe moved into program
  program::Program program;
};

namespace plan {

using Made = Result<std::unique_ptr<const Plan::Impl>>;

std::vector<Made> make_all(std::span<const Problem> problems, const Options& options);

// What run() of a plan for the problem would say of the forward, before there is one.
Status check(const Problem& problem, const Forward& forward);

Status run(const Plan::Impl& plan, const Forward& forward, void* workspace,
           std::size_t workspace_bytes, Stream stream);

std::string describe(const Plan::Impl& plan);

Status supports(const Problem& problem, const Options& options);

}  // namespace plan

}  // namespace kda
