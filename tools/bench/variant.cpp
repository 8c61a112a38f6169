#include "bench/variant.hpp"

#include <span>

#include "cli/failure.hpp"
#include "cli/words.hpp"
#include "plan/plan.hpp"

namespace kda::bench {
namespace {

// What the public Plan tells only as text.
Status look_inside(const Problem& problem, const Options& options, Variant& variant) {
  const std::vector<plan::Made> made = plan::make_all(std::span(&problem, 1), options);
  if (!made.front()) return made.front().status();
  const Plan::Impl& inside = **made.front();
  variant.strategy = inside.program.recipe.strategy;
  variant.tuning = tunable::to_text(inside.program.recipe.tuning);
  for (const program::Kernel& kernel : inside.program.kernels) {
    const compile::Resources& r = kernel.resources;
    variant.kernels.push_back(
        {kernel.stage.name, kernel.path, kernel.stage.threads, r.registers, r.spill_bytes,
         kernel.stage.shared_bytes + static_cast<std::size_t>(r.static_shared_bytes),
         r.compile_milliseconds});
  }
  return {};
}

}  // namespace

std::vector<Wanted> wanted_variants(const std::vector<std::string>& strategies,
                                    const std::vector<std::string>& tunings) {
  std::vector<std::string> texts;
  for (const std::string& tuning : tunings) {
    for (std::string& text : cli::must(cli::expand(tuning))) texts.push_back(std::move(text));
  }
  if (texts.empty()) texts.emplace_back();
  std::vector<Wanted> wanted;
  for (const std::string& strategy :
       strategies.empty() ? std::vector<std::string>{""} : strategies) {
    for (const std::string& text : texts) wanted.push_back({strategy, text});
  }
  return wanted;
}

void time_the_making(const Problem& problem, Options options, Variant& variant) {
  options.strategy = variant.wanted.strategy;
  options.tuning = variant.wanted.tuning;
  const Result<MakeTime> time = make_time(problem, options);
  if (time) variant.make_time = *time;
}

void make_plan(const Problem& problem, Options options, Variant& variant) {
  options.strategy = variant.wanted.strategy;
  options.tuning = variant.wanted.tuning;
  Result<Plan> plan = Plan::make(problem, options);
  variant.status = plan.status();
  if (!plan) return;
  variant.plan = *std::move(plan);
  variant.status = look_inside(problem, options, variant);
}

}  // namespace kda::bench
