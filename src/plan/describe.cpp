#include <fmt/format.h>
#include <fmt/ranges.h>

#include "device/family.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "strategy/expected.hpp"

namespace kda::plan {

namespace {

std::string origin_of(const program::Kernel& kernel) {
  const double milliseconds = kernel.resources.compile_milliseconds;
  if (kernel.origin == cache::Origin::built)
    return fmt::format("compiled in {:.0f} ms", milliseconds);
  const bool bundle = kernel.origin == cache::Origin::bundle;
  return fmt::format("from the {}{} (compiled in {:.0f} ms)", cache::name_of(kernel.origin),
                     bundle ? "" : " cache", milliseconds);
}

std::string line_of(const program::Kernel& kernel) {
  const compile::Resources& r = kernel.resources;
  return fmt::format(
      "kernel     {}: {}, {} threads, {} registers, {} bytes spilled, {} + {} bytes of shared "
      "memory (static + dynamic), {}{}\n",
      kernel.stage.name, kernel.path, kernel.stage.threads, r.registers, r.spill_bytes,
      r.static_shared_bytes, kernel.stage.shared_bytes, origin_of(kernel),
      r.serialized_wgmma != 0 ? ", its wgmma serialized by ptxas (a newer NVRTC may not)" : "");
}

}  // namespace

std::string describe(const Plan::Impl& plan) {
  const Result<device::Family> family = device::family_of(plan.device);
  const Choice& choice = plan.choice;
  std::string text = fmt::format(
      "device     {} ({}){}\n"
      "problem    {}\n"
      "strategy   {} ({}; expected {:.1f} us at T={})\n"
      "tuning     {} ({})\n",
      plan.device.name, family ? family->target : "unknown",
      plan.device.present() ? "" : ", named and not present", problem::to_text(plan.problem),
      choice.strategy->name, name_of(choice.strategy_origin), choice.microseconds,
      plan.problem.max_tokens, tunable::to_text(plan.program.recipe.tuning),
      name_of(choice.tuning_origin));
  if (const std::string lengths = strategy::expected_of_what(plan.problem); !lengths.empty()) {
    text += fmt::format("lengths    {}\n", lengths);
  }
  if (!choice.evidence.empty()) text += fmt::format("evidence   {}\n", choice.evidence);
  if (!choice.passed_over.empty()) {
    text += fmt::format("passed by  {}\n", fmt::join(choice.passed_over, "; "));
  }
  text += fmt::format("workspace  {} bytes\n", plan.program.recipe.workspace_bytes);
  for (const program::Kernel& kernel : plan.program.kernels) text += line_of(kernel);
  return text;
}

}  // namespace kda::plan
