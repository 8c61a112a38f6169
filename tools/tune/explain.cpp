#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/digest.hpp"
#include "cache/bundle.hpp"
#include "cache/nearest.hpp"
#include "cache/survey.hpp"
#include "cli/failure.hpp"
#include "problem/problem.hpp"
#include "strategy/expected.hpp"
#include "strategy/table.hpp"
#include "tune/arguments.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/needs.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;

constexpr Column kCandidates[] = {
    {"strategy", "strategy"},           {"chosen", "chosen"}, {"expected_us", "expected us", 1},
    {"workspace_bytes", "workspace B"}, {"tuning", "tuning"}, {"why", "why"}};
constexpr Column kKernels[] = {{"stage", "stage"},         {"template", "template"},
                               {"threads", "threads"},     {"registers", "regs"},
                               {"spill_bytes", "spill B"}, {"dynamic_shared_bytes", "dyn. smem B"},
                               {"origin", "cache"},        {"key", "key"}};
constexpr Column kNearest[] = {{"stage", "stage"},
                               {"key", "nearest entry"},
                               {"field", "differs in"},
                               {"here", "this problem's"},
                               {"there", "the entry's"}};
constexpr Column kStageFields[] = {{"stage", "stage"}, {"field", "key field"}, {"value", "value"}};

// Why a strategy that can serve is not taken.
const char* why_not(double expected_us, const plan::Choice& chosen) {
  return expected_us < chosen.microseconds
             ? "expected sooner, but measured records prefer the chosen one"
             : "expected to take longer";
}

// What each strategy would do, the chosen one marked.
Json candidates(const cli::Subject& subject, const Target& target, const kda::Options& options,
                const plan::Choice& chosen) {
  Json rows = Json::array();
  for (const strategy::Strategy* each : strategy::table()) {
    if (!options.strategy.empty() && options.strategy != each->name) continue;
    kda::Options forced = options;
    forced.strategy = each->name;
    const bool is_chosen = each == chosen.strategy;
    Json& row = rows.emplace_back(Json{{"strategy", each->name}, {"chosen", is_chosen}});
    const Result<plan::Choice> choice = choose(subject, target, forced);
    if (!choice) {
      row["why"] = choice.status().message();
      continue;
    }
    // As the choice expects it: of a strategy that nobody named more may be known.
    row["expected_us"] = is_chosen ? chosen.microseconds : choice->microseconds;
    row["tuning"] = tunable::to_text(choice->recipe.tuning);
    row["workspace_bytes"] = choice->recipe.workspace_bytes;
    row["why"] =
        is_chosen ? fmt::format("strategy: {}; tuning: {}", plan::name_of(chosen.strategy_origin),
                                plan::name_of(chosen.tuning_origin))
                  : why_not(choice->microseconds, chosen);
  }
  return rows;
}

// Every entry in reach, for a kernel that none of them is.
std::vector<cache::Stored> entries_in(const cache::Cache& cache) {
  std::vector<cache::Stored> entries;
  std::vector<std::string> directories = cache.more_directories();
  if (!cache.directory().empty()) directories.insert(directories.begin(), cache.directory());
  for (const std::string& directory : directories) {
    for (cache::Filed& filed : cache::survey(directory)) {
      if (filed.trouble.empty()) entries.push_back(std::move(filed.stored));
    }
  }
  for (const auto& bundle : cache.bundles()) {
    for (std::size_t i = 0; i < bundle->size(); ++i) {
      cache::Stored stored;
      if (!cache::decode(bundle->entry(i), stored).empty()) continue;
      std::string().swap(stored.entry.cubin);  // its key is what counts
      entries.push_back(std::move(stored));
    }
  }
  return entries;
}

// A row a field in which the kernel's key differs from the entry that comes closest.
void add_nearest(const compose::Stage& stage, const program::Unit& unit,
                 const std::vector<cache::Stored>& entries, Json& rows) {
  const std::optional<cache::Nearest> nearest = cache::nearest(unit.key, entries);
  if (!nearest) return;
  for (const cache::Difference& each : nearest->differences) {
    const cache::Difference shown = cache::shortened(each);
    rows.push_back({{"stage", stage.name},
                    {"key", nearest->stored->digest()},
                    {"field", shown.field},
                    {"here", shown.here},
                    {"there", shown.there}});
  }
}

// Long values (sources) as their size and digest.
std::string short_value(const std::string& value) {
  if (value.size() <= 60 && value.find('\n') == std::string::npos) return value;
  return fmt::format("{} bytes, digest {}", value.size(), base::digest(value).substr(0, 12));
}

void add_asked(const cli::Subject& subject, const Target& target, const plan::Choice& choice,
               cli::Document& document) {
  const std::string problem = problem::to_text(subject.problem);
  const std::string lengths = strategy::expected_of_what(subject.problem);
  const bool present = target.device.present();
  Json row{{"problem", problem}, {"device", target.device.name}, {"present", present}};
  if (!choice.evidence.empty()) row["evidence"] = choice.evidence;
  if (!lengths.empty()) row["lengths"] = lengths;
  document.tell("asked", Json::array({row}), "problem  " + problem);
  if (!document.for_people()) return;
  document.say(
      fmt::format("device   {}{}", target.device.name, present ? "" : " (named, not present)"));
  if (!choice.evidence.empty()) document.say("evidence " + choice.evidence);
  if (!lengths.empty()) document.say("lengths  " + lengths);
}

}  // namespace

int explain(const Request& request) {
  const cli::Subject subject = problem_of(request);
  const Target target = target_of(request, kOneAbsent);
  const kda::Options options = choice_of(request);
  const plan::Choice choice = must(choose(subject, target, options));
  const std::shared_ptr<cache::Cache> cache = cache::shared_cache(request.cache_dir);

  cli::Document document(request.output);
  add_asked(subject, target, choice, document);
  document.add("candidates", candidates(subject, target, options, choice), kCandidates);
  Json kernels = Json::array(), fields = Json::array(), near = Json::array();
  std::optional<std::vector<cache::Stored>> entries;
  for (const compose::Stage& stage : choice.recipe.stages) {
    program::Unit unit = must(program::unit_at_hand(stage, target.device));
    Result<cache::Found> found = look_up(unit, *cache);
    // Of those that spill as far as is known here.
    for (int spilt = 1; found && found->entry->resources.spill_bytes > 0; ++spilt) {
      const std::optional<compose::Stage> other = program::roomier(stage, spilt);
      if (!other) break;
      unit = must(program::unit_at_hand(*other, target.device));
      found = look_up(unit, *cache);
    }
    kernels.push_back(kernel_row(stage, unit, found ? &*found : nullptr));
    if (!found) {
      if (!entries) entries = entries_in(*cache);
      add_nearest(stage, unit, *entries, near);
    }
    for (const auto& [name, value] : unit.key.fields()) {
      fields.push_back({{"stage", stage.name}, {"field", name}, {"value", short_value(value)}});
    }
  }
  document.add("kernels", kernels, kKernels);
  if (!near.empty()) document.add("nearest", near, kNearest);
  document.add("key fields", fields, kStageFields);
  document.print();
  return cli::kOk;
}

}  // namespace kda::tune_tool
