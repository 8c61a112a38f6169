#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "cli/tell.hpp"
#include "tune/arguments.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/needs.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;

constexpr Column kRefusals[] = {{"arch", "arch"},
                                {"problem", "problem"},
                                {"strategy", "strategy"},
                                {"tuning", "tuning"},
                                {"why", "why"}};

// A recipe to build, and the problems that turned out to want just it.
struct Work {
  const Target* target = nullptr;
  compose::Recipe recipe;
  std::set<std::string> problems;
};

// What names a recipe apart from others: its kernels' sources and launch shapes.
std::string identity_of(const Target& target, const compose::Recipe& recipe) {
  std::string text = target.name + " " + recipe.strategy + " " + tunable::to_text(recipe.tuning);
  for (const compose::Stage& stage : recipe.stages) {
    text +=
        fmt::format("\n{} {} {}\n{}", stage.file, stage.threads, stage.shared_bytes, stage.prelude);
  }
  return text;
}

class Builder {
 public:
  explicit Builder(const Request& request)
      : request_(request), cache_(cache::shared_cache(request.cache_dir)) {}

  // Composes; equal recipes of several problems become one.
  void add(const Target& target, const cli::Subject& subject, const kda::Options& options) {
    Result<plan::Choice> choice = choose(subject, target, options);
    if (!choice) {
      if (choice.status().code() == Code::invalid_argument) must(choice.status());
      refuse(target, subject.name, options.strategy, options.tuning, choice.status(), refused_);
      return;
    }
    const std::string identity = identity_of(target, choice->recipe);
    if (!works_.contains(identity)) order_.push_back(identity);
    Work& work = works_[identity];
    work.problems.insert(subject.name);
    if (work.target != nullptr) return;
    work.target = &target;
    work.recipe = std::move(choice->recipe);
  }

  // In batches wide enough for every job, so that progress shows; a batch is for one device.
  void build() {
    const unsigned jobs = request_.jobs > 0 ? request_.jobs : program::default_threads();
    const std::size_t most = std::size_t{4} * jobs;
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::size_t first = ends.empty() ? 0 : ends.back();
      const bool other_device =
          i > first && works_[order_[i]].target != works_[order_[first]].target;
      if (other_device || i == first + most) ends.push_back(i);
    }
    ends.push_back(order_.size());

    cli::Progress progress(request_.output.err, ends.size(), {.quiet = request_.output.quiet});
    std::size_t first = 0;
    for (const std::size_t end : ends) {
      if (first == end) continue;
      const Target& target = *works_[order_[first]].target;
      progress.step(
          fmt::format("{}: recipes {} to {} of {}", target.name, first + 1, end, order_.size()));
      build(target, first, end, jobs);
      first = end;
    }
  }

  int print() {
    cli::Document document(request_.output);
    document.add("kernels", rows_, kernel_columns());
    if (!refused_.empty()) document.add("not served", refused_, kRefusals);
    if (!failed_.empty()) document.add("failed", failed_, kRefusals);
    document.print();
    if (!failed_.empty() && document.for_people()) {
      cli::tell(request_.output.err, fmt::format("the first failure in full:\n{}\n",
                                                 failed_[0]["why"].get<std::string>()));
    }
    return failed_.empty() && !rows_.empty() ? cli::kOk : cli::kFailed;
  }

 private:
  void build(const Target& target, std::size_t first, std::size_t end, unsigned jobs) {
    std::vector<compose::Recipe> recipes;
    for (std::size_t i = first; i < end; ++i) recipes.push_back(works_[order_[i]].recipe);
    // Named, not present: nothing is loaded, so this works beside any GPU or none.
    device::Device named = target.device;
    named.ordinal = -1;
    auto built = program::build_all(std::move(recipes), named, *cache_, jobs);
    for (std::size_t i = first; i < end; ++i) {
      const Result<program::Program>& program = built[i - first];
      const Work& work = works_[order_[i]];
      const std::string problems = fmt::format("{}", fmt::join(work.problems, " "));
      const std::string tuning = tunable::to_text(work.recipe.tuning);
      if (!program) {
        Json& list = program.status().code() == Code::unsupported ? refused_ : failed_;
        refuse(target, problems, work.recipe.strategy, tuning, program.status(), list);
        continue;
      }
      for (const program::Kernel& kernel : program->kernels) {
        const program::Unit unit = must(program::unit_at_hand(kernel.stage, named));
        const cache::Found entry = must(look_up(unit, *cache_));
        const cache::Found found{entry.entry, kernel.origin};
        Json row = kernel_row(kernel.stage, unit, &found);
        row["strategy"] = work.recipe.strategy;
        row["tuning"] = tuning;
        row["used_by"] = problems;
        rows_.push_back(std::move(row));
      }
    }
  }

  static void refuse(const Target& target, const std::string& problem, const std::string& strategy,
                     const std::string& tuning, const Status& why, Json& list) {
    list.push_back({{"arch", target.name},
                    {"problem", problem},
                    {"strategy", strategy},
                    {"tuning", tuning},
                    {"why", why.message()}});
  }

  const Request& request_;
  std::shared_ptr<cache::Cache> cache_;
  std::map<std::string, Work> works_;
  std::vector<std::string> order_;
  Json rows_ = Json::array(), refused_ = Json::array(), failed_ = Json::array();
};

}  // namespace

int build(const Request& request) {
  const std::vector<Target> targets = targets_of(request, kSeveralAbsent);
  const std::vector<cli::Subject> subjects = problems_of(request);
  Builder builder(request);
  for (const Target& target : targets) {
    for (const kda::Options& options : choices_of(request)) {
      for (const cli::Subject& subject : subjects) builder.add(target, subject, options);
    }
  }
  builder.build();
  return builder.print();
}

}  // namespace kda::tune_tool
