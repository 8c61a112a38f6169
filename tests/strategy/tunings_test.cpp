// Forced tunings: what was asked for is what runs, and it is right.
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

std::vector<Variant> chunks() {
  return {{"chunk", "chunk=16"}, {"chunk", "chunk=32"}, {"chunk", "chunk=64"}};
}

// The planner refuses what cannot be (too much shared memory, too few columns), so these may too.
std::vector<Variant> others() {
  std::vector<Variant> out;
  for (const char* tuning :
       {"shards=1", "shards=2", "shards=4", "shards=8", "shards=16", "threads=32", "threads=64",
        "threads=128", "threads=256", "threads=256 shards=1", "load_stages=2", "load_stages=4",
        "load_stages=6", "prepare_threads=64", "prepare_threads=128", "prepare_threads=256"})
    for (const char* chunk : {"chunk=16 ", "chunk=32 ", "chunk=64 "})
      out.push_back({"chunk", std::string(chunk) + tuning});
  for (const char* tuning :
       {"threads=64", "threads=128", "threads=256", "columns=1", "columns=2", "columns=4",
        "columns=8", "lanes=4", "lanes=8", "lanes=16", "lanes=32"})
    out.push_back({"recurrent", tuning});
  return out;
}

}  // namespace

TEST_CASE("every chunk by every size, on the device", "[gpu]") {
  check_on_device("chunk by size", four_sizes(), chunks());
}

TEST_CASE("every chunk by every size composes") {
  check_composes("chunk by size", four_sizes(), chunks());
  for (const char* target : {"sm_80", "sm_89", "sm_120a"}) {  // 163, 99 and 99 KB a block
    const Tally tally = compose_only("chunk by size", four_sizes(), target, chunks());
    CAPTURE(target);
    CHECK(tally.failed == 0);
    CHECK(tally.refused == 0);
  }
}

TEST_CASE("every tuning that composes is right, on the device", "[gpu]") {
  check_on_device("other tunings", one_size(), others());
}

TEST_CASE("the forced tunings are tunings that there are") {
  const Tally tally = compose_only("other tunings", one_size(), "sm_90a", others());
  CHECK(tally.failed == 0);
  CHECK(tally.passed > 0);
}
