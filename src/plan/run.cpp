// The hot path: no allocation, lock or environment unless something is wrong.
#include <fmt/format.h>

#include <cstdint>

#include "compose/workspace.hpp"
#include "plan/plan.hpp"
#include "problem/check.hpp"
#include "problem/shape.hpp"

namespace kda::plan {

namespace {

Status check_workspace(const void* workspace, std::size_t given, std::size_t needed) {
  if (given < needed) {
    return Status(Code::invalid_argument,
                  fmt::format("workspace_bytes = {}; this plan needs {}", given, needed));
  }
  if (needed == 0) return {};
  if (workspace == nullptr) {
    return Status(Code::invalid_argument,
                  fmt::format("workspace is null; this plan needs {} bytes", needed));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  if (address % compose::Workspace::kAlignment != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("workspace = {:#x} is not aligned to {} bytes", address,
                              compose::Workspace::kAlignment));
  }
  return {};
}

}  // namespace

Status check(const Problem& problem, const Forward& forward) {
  const Result<Problem> complete = problem::complete(problem);
  return complete ? problem::check(*complete, forward) : complete.status();
}

Status run(const Plan::Impl& plan, const Forward& forward, void* workspace,
           std::size_t workspace_bytes, Stream stream) {
  if (Status status = problem::check(plan.problem, forward); !status) return status;
  if (Status status =
          check_workspace(workspace, workspace_bytes, plan.program.recipe.workspace_bytes);
      !status) {
    return status;
  }
  if (!plan.device.present()) {
    return Status(
        Code::unsupported,
        fmt::format("this plan was compiled for {} by Options::target; it describes itself "
                    "and does not run.  Make one without a target to run on a device",
                    plan.device.name));
  }

  Forward filled = forward;
  problem::fill_strides(plan.problem, filled);
  return program::enqueue(plan.program, {filled, static_cast<std::byte*>(workspace)}, stream);
}

}  // namespace kda::plan
