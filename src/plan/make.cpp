// Choose, compose, build, freeze.
#include <optional>
#include <utility>

#include "cache/cache.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"

namespace kda::plan {

namespace {

// A problem on its way to a plan, or why it will not be one.
struct Draft {
  Problem problem;
  std::optional<Choice> choice;
  Status status;
};

Draft draft_of(const Problem& given, const device::Device& device, const Options& options) {
  Draft draft;
  const Result<Problem> complete = problem::complete(given);
  if (!complete) {
    draft.status = complete.status();
    return draft;
  }
  draft.problem = *complete;
  Result<Choice> choice = choose(draft.problem, device, options);
  if (choice) {
    draft.choice = *std::move(choice);
  } else {
    draft.status = choice.status();
  }
  return draft;
}

}  // namespace

std::vector<Made> make_all(std::span<const Problem> problems, const Options& options) {
  std::vector<Made> made;
  made.reserve(problems.size());
  const Result<device::Device> device = device_of(options);
  if (!device) {
    // A problem that contradicts itself does so without a device too.
    for (const Problem& given : problems) {
      const Result<Problem> complete = problem::complete(given);
      made.emplace_back(complete ? device.status() : complete.status());
    }
    return made;
  }

  std::vector<Draft> drafts;
  std::vector<compose::Recipe> recipes;
  drafts.reserve(problems.size());
  for (const Problem& given : problems) {
    Draft& draft = drafts.emplace_back(draft_of(given, *device, options));
    if (draft.choice) recipes.push_back(std::move(draft.choice->recipe));
  }

  const std::shared_ptr<cache::Cache> cache = cache::shared_cache(options.cache_dir);
  auto built = program::build_all(std::move(recipes), *device, *cache);
  auto next = built.begin();
  for (Draft& draft : drafts) {
    if (!draft.choice) {
      made.emplace_back(draft.status);
      continue;
    }
    Result<program::Program>& program = *next++;
    if (!program) {
      made.emplace_back(program.status());
      continue;
    }
    made.emplace_back(std::make_unique<const Plan::Impl>(
        Plan::Impl{draft.problem, *device, *std::move(draft.choice), *std::move(program)}));
  }
  return made;
}

Status supports(const Problem& problem, const Options& options) {
  const Result<Problem> complete = problem::complete(problem);
  if (!complete) return complete.status();
  const Result<device::Device> device = device_of(options);
  if (!device) return device.status();
  return choose(*complete, *device, options).status();
}

}  // namespace kda::plan
