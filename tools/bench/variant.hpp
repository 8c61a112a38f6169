// One way to serve a problem that is measured beside others: a plan, and what its kernels need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/make_time.hpp"
#include "kda/kda.hpp"

namespace kda::bench {

// A strategy and tuning as asked for; empty leaves the choice to the planner.
struct Wanted {
  std::string strategy, tuning;
};

// Every strategy with every tuning, lists in the tunings expanded.
std::vector<Wanted> wanted_variants(const std::vector<std::string>& strategies,
                                    const std::vector<std::string>& tunings);

struct KernelNeeds {
  std::string stage, path;  // path: the template that served
  unsigned threads = 0;
  int registers = 0, spill_bytes = 0;
  std::size_t shared_bytes = 0;  // static and dynamic
  double compile_ms = 0;
};

struct Variant {
  Wanted wanted;
  Status status;  // why there is no plan
  std::optional<Plan> plan;
  std::string strategy, tuning;  // as chosen
  std::vector<KernelNeeds> kernels;
  std::optional<MakeTime> make_time;
};

// Both take the device and cache from options; a refusal becomes the variant's status.
void time_the_making(const Problem& problem, Options options, Variant& variant);
void make_plan(const Problem& problem, Options options, Variant& variant);

}  // namespace kda::bench
