// Forced tunings: what was asked for is what runs, and it is right.
#include "strategy/table.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

std::vector<Trial> four_sizes() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* size : {"K=64 V=64 ", "K=64 V=128 ", "K=128 V=64 ", "K=128 V=128 "})
      out.push_back(trial(all_types(type) + size + "varlen=1", {257, 0, 3, 40}));
  return out;
}

std::vector<Trial> one_size() {
  return {trial("K=128 V=128 HV=4 varlen=1", {257, 0, 3, 40}),
          trial("K=100 V=60 qkv=f16 varlen=1", {257, 0, 3, 40})};
}

std::vector<Variant> chunks(bool of_every_strategy) {
  std::vector<Variant> out;
  for (const strategy::Strategy* row : strategy::table())
    for (const tunable::Row& tunable : row->space())
      for (const int value : tunable.values)
        if (tunable.name == "chunk" && (of_every_strategy || std::string(row->name) == "chunk"))
          out.push_back({row->name, "chunk=" + std::to_string(value)});
  return out;
}

// Each value of each tunable, with each chunk where the strategy has chunks.  What cannot be (too
// much shared memory, too few columns) is refused by the planner, here too.
std::vector<Variant> others() {
  std::vector<Variant> out;
  for (const strategy::Strategy* row : strategy::table()) {
    std::vector<std::string> starts = {""};
    for (const tunable::Row& tunable : row->space()) {
      if (tunable.name != "chunk") continue;
      starts.clear();
      for (const int value : tunable.values)
        starts.push_back("chunk=" + std::to_string(value) + " ");
    }
    for (const tunable::Row& tunable : row->space())
      for (const int value : tunable.values)
        for (const std::string& start : starts)
          if (tunable.name != "chunk")
            out.push_back({row->name, start + tunable.name + "=" + std::to_string(value)});
  }
  return out;
}

std::vector<Trial> several_tokens() {
  const auto by = [](const char* words) { return trial(words, {9, 0, 1, 5, 4}); };
  return {by("K=64 V=60 HV=2 varlen=1 state=f32"), by("K=100 V=128 varlen=1 state=bf16")};
}

// By one token's stage and by two, sums of every number of columns over every number of lanes.
std::vector<Variant> lanes_and_columns() {
  std::vector<Variant> out;
  for (const int stages : {1, 2})
    for (const int lanes : {4, 8, 16, 32})
      for (const int columns : {1, 2, 4, 8})
        out.push_back({"recurrent", "threads=128 lanes=" + std::to_string(lanes) +
                                        " columns=" + std::to_string(columns) +
                                        " stages=" + std::to_string(stages)});
  return out;
}

}  // namespace

TEST_CASE("every chunk by every size, on the device", "[gpu]") {
  check_on_device("chunk by size", four_sizes(), chunks(true));
}

TEST_CASE("every chunk by every size composes") {
  const std::string target = GENERATE("sm_80", "sm_89", "sm_90a", "sm_120a");
  CAPTURE(target);
  const Tally tally = compose_only("chunk by size", four_sizes(), target.c_str(), chunks(false));
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
  CHECK(tally.passed == 12 * 3);
}

TEST_CASE("every tuning that composes is right, on the device", "[gpu]") {
  check_on_device("other tunings", one_size(), others());
}

TEST_CASE("sums over any lanes and of any columns, on the device", "[gpu]") {
  check_on_device("lanes and columns", several_tokens(), lanes_and_columns());
}

TEST_CASE("tunings of any lanes and columns compose") {
  // All but two, by which a thread would keep eight columns of a quarter of 100 channels.
  const Tally tally =
      compose_only("lanes and columns", several_tokens(), "sm_90a", lanes_and_columns());
  CHECK(tally.failed == 0);
  CHECK(tally.passed == 62);
}

TEST_CASE("the forced tunings are tunings that there are") {
  const Tally tally = compose_only("other tunings", one_size(), "sm_90a", others());
  CHECK(tally.failed == 0);
  CHECK(tally.passed > 0);
}
