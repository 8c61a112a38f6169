// Strategy chunk where warps share key channels (Tuning::key_warps): every way to split K and V
// over a block's warps, against the fp64 recurrence on a GPU.
#include "abi/chunk.h"
#include "strategy/chunk.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;

namespace {

// Sequences that end within a chunk, one that is empty, and states in and out.
const std::vector<std::int64_t> kLengths = {131, 0, 3, 40};

std::vector<Trial> trials() {
  std::vector<Trial> out;
  for (const char* type : kTypes) {
    const std::string types = all_types(type);
    // Ak in two terms, of 16 bits.
    out.push_back(trial(types + "K=64 V=64 varlen=1 neg_eigval=1", kLengths));
    out.push_back(trial(types + "K=128 V=60 varlen=1 gate=softplus layout=key_first", kLengths));
    out.push_back(trial(types + "K=60 V=64 H=1 HV=4 l2norm=0 beta_logit=0", {77, 77}));
  }
  out.push_back(trial("K=256 V=64 varlen=1 state=bf16", kLengths));
  out.push_back(trial(all_types("f32") + "K=256 V=64", {70}));
  out.push_back(trial(all_types("f16") + "K=32 V=100", {70}));
  // Channels that no power of two of 16s shares: some of the last warp's are past K.
  for (const char* type : kTypes)
    for (const char* size : {"K=100 V=64", "K=192 V=64", "K=80 V=64"})
      out.push_back(trial(all_types(type) + size + " varlen=1", kLengths));
  return out;
}

std::vector<Variant> splits() {
  std::vector<Variant> out;
  for (const char* chunk : {"chunk=16 ", "chunk=32 ", "chunk=64 "})
    for (const char* split :
         {"key_warps=1 threads=64 shards=2", "key_warps=2 threads=64 shards=4",
          "key_warps=2 threads=128 shards=1", "key_warps=4 threads=128 shards=4",
          "key_warps=4 threads=128 shards=2", "key_warps=4 threads=256 shards=1",
          "key_warps=8 threads=256 shards=4"})
      out.push_back({"chunk", std::string(chunk) + split + " load_stages=2"});
  return out;
}

Status composed(const std::string& problem, const std::string& tuning) {
  const tunable::Space space = strategy::chunk.space();
  const auto values =
      tunable::parse(tuning, space, tunable::values_of(abi::chunk::Tuning(), abi::chunk::tunables));
  REQUIRE(values);
  return strategy::chunk.compose(problem_in_words(problem), h200(), *values).status();
}

}  // namespace

TEST_CASE("warps that share key channels find what one does, on the device", "[gpu]") {
  check_on_device("key warps", trials(), splits());
}

TEST_CASE("warps that share key channels compose wherever they can", "[strategy]") {
  const Tally tally = compose_only("key warps", trials(), "sm_90a", splits());
  CHECK(tally.failed == 0);
  CHECK(tally.passed > 150);
}

TEST_CASE("warps that cannot share key channels are refused by name", "[strategy]") {
  const std::string few =
      "chunk=32 prepare_threads=128 threads=64 shards=8 load_stages=2 key_warps=4";
  CHECK(composed("T=100 H=1 K=128", few).message() ==
        "strategy chunk: key_warps=4 want at least 128 threads, not threads=64");
  const std::string four =
      "chunk=32 prepare_threads=128 threads=128 shards=8 load_stages=2 key_warps=4";
  CHECK(composed("T=100 H=1 K=128", four).ok());
  CHECK(composed("T=100 H=1 K=80", four).message() ==
        "strategy chunk: key_warps=4 of 32 channels each leave the last none of key_dim=80; fewer "
        "do");
  CHECK(
      composed("T=100 H=1 K=160 qkv=f32", four).message() ==
      "strategy chunk: key_warps=4 of 48 channels each reach past the 160 that key_dim=160 stores "
      "of a factor; fewer may not");
  CHECK(composed("T=100 H=1 K=128 V=512", four).message() ==
        "strategy chunk: shards=8 leave 64 V columns a block: threads=128 of key_warps=4 hold at "
        "most 32; more shards or threads");
}
