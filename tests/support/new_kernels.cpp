#include "support/new_kernels.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <queue>
#include <utility>

#include "base/text.hpp"
#include "cache/cache.hpp"
#include "plan/choose.hpp"
#include "problem/problem.hpp"

namespace kda::test {
namespace {

// TABLE: fields of a shape that are one value together, as a factor of a sweep is.
struct Together {
  std::string_view field, value;
};
constexpr Together kTogether[] = {
    {"key_dim", "size"},
    {"value_dim", "size"},
    {"beta_is_logit", "beta"},
    {"allow_neg_eigval", "beta"},
    {"beta_at_most_one", "beta"},
    {"l2norm_qk", "norm"},
    {"qk_normalized", "norm"},
    {"varlen", "sequences"},
    {"cu_seqlens_type", "sequences"},
    {"state_type", "state"},
    {"state_value_first", "state"},
    {"initial_state", "states"},
    {"final_state", "states"},
    {"state_pool", "states"},
    {"slot_index_type", "states"},
    {"draft_states", "states"},
    {"checkpoints", "states"},
    {"zero_padding", "states"},
    {"committed_tokens", "states"},
};

// Stages that prepare read nothing of states, and of v none but to make u ("what prepares is told
// nothing by states" holds them to it).
bool is_read(std::string_view path, std::string_view field, std::string_view value, bool wy) {
  if (path.find("/chunk/prepare") == std::string_view::npos) return true;
  return value != "state" && value != "states" && (field != "value_dim" || wy);
}

// What a stage is specialised on: of "#define KDA_SHAPE {.key_dim = 64, ...}" and its like.
std::vector<std::string> values_of(std::string_view path, std::string_view prelude) {
  const bool wy = prelude.find(".wy_tensors = true") != std::string_view::npos;
  std::map<std::string, std::string> values;
  for (const std::string_view line : base::split(prelude, '\n')) {
    const std::size_t open = line.find('{');
    if (open == std::string_view::npos) {
      if (!line.empty()) values[std::string(line)];
      continue;
    }
    for (const std::string_view part :
         base::split(line.substr(open + 1, line.size() - open - 2), ',')) {
      const std::string_view entry = base::trim(part);
      if (entry.empty()) continue;
      const std::string_view field = entry.substr(1, entry.find(' ') - 1);
      const auto* with = std::find_if(std::begin(kTogether), std::end(kTogether),
                                      [&](const Together& row) { return row.field == field; });
      const std::string_view value = with == std::end(kTogether) ? field : with->value;
      if (!is_read(path, field, value, wy)) continue;
      values[std::string(value)] += entry;
      // What a line leaves out has a value, too: its initialiser's.
      values["fields"].append(field) += ' ';
    }
  }
  std::vector<std::string> all;
  for (const auto& [name, value] : values) all.push_back(name + value);
  return all;
}

}  // namespace

NewKernels::Candidate NewKernels::candidate_of(const compose::Stage& stage,
                                               const device::Device& device) {
  const Result<program::Unit> unit = program::portable_unit_of(stage, device);
  // What will not be compiled brings nothing, and the build says why.
  if (!unit || stage.shared_bytes > device.shared_per_block) return {.chosen = true};
  std::vector<std::string> values = values_of(unit->path, stage.prelude);
  values.push_back(unit->job.target);
  Candidate candidate;
  for (std::size_t a = 0; a < values.size(); ++a) {
    for (std::size_t b = a + 1; b < values.size(); ++b) {
      const auto number = static_cast<std::uint32_t>(numbers_.size());
      const std::string pair = unit->path + '\n' + values[a] + '\n' + values[b];
      candidate.pairs.push_back(numbers_.emplace(pair, number).first->second);
    }
  }
  return candidate;
}

void NewKernels::choose_among(std::vector<Candidate>& candidates) {
  met_.resize(numbers_.size());
  const auto count = [&](std::size_t i) {
    const auto& pairs = candidates[i].pairs;
    return std::count_if(pairs.begin(), pairs.end(), [&](std::uint32_t at) { return !met_[at]; });
  };
  using Gain = std::pair<std::ptrdiff_t, std::ptrdiff_t>;  // new pairs, and the first of as many
  std::priority_queue<Gain> queue;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].chosen) queue.emplace(count(i), -static_cast<std::ptrdiff_t>(i));
  }
  while (!queue.empty()) {
    const auto [gain, negative] = queue.top();
    queue.pop();
    const auto i = static_cast<std::size_t>(-negative);
    const std::ptrdiff_t now = count(i);  // others may have brought some since
    if (now == 0) continue;
    if (now < gain) {
      queue.emplace(now, negative);
      continue;
    }
    candidates[i].chosen = true;
    for (const std::uint32_t at : candidates[i].pairs) met_[at] = true;
  }
}

std::vector<NewOnes> NewKernels::make(const std::vector<Wanted>& all) {
  struct Work {
    std::vector<std::size_t> of;
    std::vector<compose::Recipe> recipes;
  };
  std::map<std::string, Work> by_target;
  std::vector<NewOnes> made(all.size());
  std::vector<std::pair<std::size_t, compose::Recipe>> chosen;
  std::vector<Candidate> candidates;  // of all stages of these
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Options options{
        .target = all[i].target, .strategy = all[i].strategy, .tuning = all[i].tuning};
    NewOnes& ones = made[i];
    const Result<Problem> problem = problem::complete(all[i].problem);
    const Result<device::Device> device = plan::device_of(options);
    ones.status = problem ? device.status() : problem.status();
    if (!ones.status) continue;
    ones.device = *device;
    Result<plan::Choice> choice = plan::choose(*problem, *device, options);
    ones.status = choice.status();
    if (!choice) continue;
    ones.tuning = tunable::to_text(choice->recipe.tuning);
    for (const compose::Stage& stage : choice->recipe.stages) {
      candidates.push_back(candidate_of(stage, *device));
    }
    chosen.emplace_back(i, std::move(choice->recipe));
  }
  choose_among(candidates);
  auto candidate = candidates.begin();
  for (auto& [i, recipe] : chosen) {
    std::vector<compose::Stage> stages;
    for (compose::Stage& stage : recipe.stages) {
      if ((candidate++)->chosen) stages.push_back(std::move(stage));
    }
    recipe.stages = std::move(stages);
    Work& work = by_target[all[i].target];
    work.of.push_back(i);
    work.recipes.push_back(std::move(recipe));
  }
  const auto cache = cache::shared_cache(cache_dir_);
  for (auto& [target, work] : by_target) {
    const device::Device& device = made[work.of.front()].device;
    auto built = program::build_all(std::move(work.recipes), device, *cache);
    for (std::size_t n = 0; n < work.of.size(); ++n) {
      NewOnes& ones = made[work.of[n]];
      ones.status = built[n].status();
      if (built[n]) ones.kernels = std::move(built[n]->kernels);
    }
  }
  return made;
}

}  // namespace kda::test
