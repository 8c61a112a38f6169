// The C++ API over plan/; here exceptions (out of memory, say) become a Status.
#include <exception>
#include <string>
#include <utility>

#include "api/options.hpp"
#include "base/no_memory.hpp"
#include "plan/plan.hpp"

namespace kda {

namespace {

Status unexpected(const std::exception& error) noexcept try {
  return Status(Code::device_error, std::string("the host refused: ") + error.what());
} catch (...) {  // there is no memory, not even to say so
  return base::no_memory();
}

}  // namespace

Plan::Plan(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

Result<Plan> Plan::make(const Problem& problem, const Options& options) {
  try {
    if (Status status = api::check(options); !status) return status;
    plan::Made made = std::move(plan::make_all({&problem, 1}, options).front());
    if (!made) return made.status();
    return Plan(*std::move(made));
  } catch (const std::exception& error) {  // make_all() may not even have room to say so
    return unexpected(error);
  }
}

std::vector<Result<Plan>> Plan::make_all(std::span<const Problem> problems,
                                         const Options& options) {
  std::vector<Result<Plan>> plans;
  try {
    plans.reserve(problems.size());
    if (const Status status = api::check(options); !status) {
      while (plans.size() < problems.size()) plans.emplace_back(status);
      return plans;
    }
    for (plan::Made& made : plan::make_all(problems, options)) {
      if (made) {
        plans.emplace_back(Plan(*std::move(made)));
      } else {
        plans.emplace_back(made.status());
      }
    }
  } catch (const std::exception& error) {
    plans.clear();
    while (plans.size() < problems.size()) plans.emplace_back(unexpected(error));
  }
  return plans;
}

const Problem& Plan::problem() const noexcept { return impl_->problem; }

std::size_t Plan::workspace_bytes() const noexcept { return impl_->program.recipe.workspace_bytes; }

Status Plan::run(const Forward& forward, void* workspace, std::size_t workspace_bytes,
                 Stream stream) const {
  try {
    return plan::run(*impl_, forward, workspace, workspace_bytes, stream);
  } catch (const std::exception& error) {
    return unexpected(error);
  }
}

std::string Plan::describe() const { return plan::describe(*impl_); }

Status supports(const Problem& problem, const Options& options) {
  try {
    if (Status status = api::check(options); !status) return status;
    return plan::supports(problem, options);
  } catch (const std::exception& error) {
    return unexpected(error);
  }
}

}  // namespace kda
