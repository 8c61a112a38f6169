// What run refuses, in the order in which it looks.  The plan is for a named device, so whatever
// passes every check ends in the refusal of that.
#include <cstdint>
#include <string>

#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "support/catch.hpp"
#include "support/forward.hpp"

using namespace kda;

namespace {

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

Plan::Impl a_plan(std::size_t workspace_bytes) {
  const Problem problem{.heads = 2, .max_tokens = 64};
  program::Program program;
  program.recipe.workspace_bytes = workspace_bytes;
  return {*problem::complete(problem), *device::parse("h200"), plan::Choice{}, std::move(program)};
}

Forward legal() { return test::forward_at(8, 0x10000, 0x10000); }

}  // namespace

TEST_CASE("a plan for a named device does not run", "[plan]") {
  const Status status = plan::run(a_plan(512), legal(), at(0x70000), 512, nullptr);
  CHECK(status.code() == Code::unsupported);
  CHECK_THAT(status.message(), test::contains("NVIDIA H200"));
  CHECK_THAT(status.message(), test::contains("Options::target"));
}

TEST_CASE("a workspace that will not do is refused with what would", "[plan]") {
  const Plan::Impl plan = a_plan(512);
  Status status = plan::run(plan, legal(), at(0x70000), 511, nullptr);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() == "workspace_bytes = 511; this plan needs 512");

  status = plan::run(plan, legal(), nullptr, 512, nullptr);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() == "workspace is null; this plan needs 512 bytes");

  status = plan::run(plan, legal(), at(0x70080), 512, nullptr);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() == "workspace = 0x70080 is not aligned to 256 bytes");
}

TEST_CASE("a plan that needs no workspace takes none", "[plan]") {
  CHECK(plan::run(a_plan(0), legal(), nullptr, 0, nullptr).code() == Code::unsupported);
  CHECK(plan::run(a_plan(0), legal(), at(0x3), 1, nullptr).code() == Code::unsupported);
}

TEST_CASE("tensors are checked before all else", "[plan]") {
  Forward forward = legal();
  forward.tokens = 65;
  Status status = plan::run(a_plan(512), forward, nullptr, 0, nullptr);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() == "tokens = 65; the plan takes 0..max_tokens = 64");

  forward = legal();
  forward.g = nullptr;
  status = plan::run(a_plan(512), forward, at(0x70000), 512, nullptr);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() == "g is null");
}
