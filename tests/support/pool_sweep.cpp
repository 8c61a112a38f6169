#include "support/pool_sweep.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <stdexcept>

#include "reference/parallel.hpp"

namespace kda::test {

reference::Slots make_slots(const SlotsSpec& spec) {
  std::mt19937_64 random(spec.seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  reference::Slots out;
  out.columns = spec.columns;
  out.checkpoint_columns = spec.checkpoint_columns;
  const std::int64_t wanted =
      std::int64_t{spec.sequences} * (spec.columns + spec.checkpoint_columns);
  out.slots = wanted + wanted / 4 + 3;
  std::vector<std::int64_t> free(out.slots);
  std::iota(free.begin(), free.end(), 0);
  std::shuffle(free.begin(), free.end(), random);
  const auto take = [&] {
    const std::int64_t slot = free.back();
    free.pop_back();
    return slot;
  };

  std::vector<std::int64_t> prefixes;  // never written
  for (int n = 0; n < spec.sequences; ++n) {
    const bool padding = n % 7 == 6;
    for (int column = 0; column < spec.columns; ++column) {
      const bool lost = column > 0 && below(8) == 0;  // a draft that nobody keeps
      out.indices.push_back(padding ? (n % 2 == 0 ? -1 - below(9) : out.slots + below(9))
                            : lost  ? -1
                                    : take());
    }
    if (spec.accepted) out.num_accepted_tokens.push_back(below(spec.columns + 2));
    for (int column = 0; column < spec.checkpoint_columns; ++column)
      out.checkpoints.push_back(padding || below(4) == 0 ? -1 : take());
    if (!spec.prefixes) continue;
    const std::int64_t own = out.indices[static_cast<std::size_t>(n) * spec.columns];
    const std::int64_t kind = padding ? 0 : below(5);
    if (kind == 1 && prefixes.size() < 2) prefixes.push_back(take());
    out.initial_indices.push_back(kind == 0 ? own
                                  : kind == 1 && !prefixes.empty()
                                      ? prefixes[below(prefixes.size())]
                                  : kind == 2               ? -1 - below(5)
                                  : kind == 3 && n % 3 == 2 ? out.slots + below(5)
                                                            : own);
  }
  return out;
}

Tally sweep_pools(const char* title, const std::vector<PoolTrial>& trials,
                  const std::vector<Variant>& variants) {
  const Gpu gpu;
  std::vector<PoolTrial> all;
  std::vector<Problem> problems;
  for (const PoolTrial& each : trials) {
    all.push_back(complete(each));
    problems.push_back(all.back().trial.problem);
  }
  std::vector<std::vector<Result<Plan>>> plans(variants.size());
  reference::parallel_for(static_cast<std::int64_t>(variants.size()), [&](std::int64_t v) {
    Options options;
    options.strategy = variants[v].strategy;
    options.tuning = variants[v].tuning;
    plans[v] = Plan::make_all(problems, options);
  });
  Tally tally;
  for (std::size_t i = 0; i < all.size(); ++i) {
    PoolRig rig(gpu, all[i]);
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const Result<Plan>& plan = plans[v][i];
      if (!plan && plan.status().code() == Code::unsupported && !serves(variants[v], problems[i])) {
        ++tally.refused;
        continue;
      }
      const std::string failure = plan ? rig.run(*plan) : plan.status().message();
      ++(failure.empty() ? tally.passed : tally.failed);
      if (!failure.empty() && tally.failed <= 40)
        std::printf("FAILED %s | %s | %s\n    %s\n", title, to_text(variants[v]).c_str(),
                    to_text(all[i]).c_str(), failure.c_str());
      if (!gpu.usable())
        throw std::runtime_error(std::string(title) + ": the device was lost at this trial: " +
                                 to_text(variants[v]) + " | " + to_text(all[i]));
    }
  }
  std::printf("%s: %d passed, %d failed, %d refused\n", title, tally.passed, tally.failed,
              tally.refused);
  return tally;
}

std::vector<Trial> plain(const std::vector<PoolTrial>& trials) {
  std::vector<Trial> out;
  for (const PoolTrial& each : trials) out.push_back(each.trial);
  return out;
}

}  // namespace kda::test
