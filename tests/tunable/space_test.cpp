#include "tunable/space.hpp"

#include <string>

#include "abi/chunk.h"
#include "support/catch.hpp"

using namespace kda;

namespace {

struct Tuning {
  int chunk = 32;
  int shards = 2;
};
constexpr abi::Tunable<Tuning> rows[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"shards", &Tuning::shards, {1, 2}, "CTAs a head"},
};
const tunable::Space space = tunable::space_of(rows);
const tunable::Values defaults = tunable::values_of(Tuning{}, rows);

std::string refusal(std::string_view text) {
  const auto result = tunable::parse(text, space, defaults);
  REQUIRE_FALSE(result);
  CHECK(result.status().code() == Code::invalid_argument);
  return result.status().message();
}

}  // namespace

TEST_CASE("a tuning survives text and back", "[tunable]") {
  CHECK(tunable::to_text(defaults) == "chunk=32 shards=2");
  CHECK(tunable::to_text({}) == "");
  const auto parsed = tunable::parse("shards=1  chunk=64", space, defaults);
  REQUIRE(parsed);
  CHECK(tunable::to_text(*parsed) == "chunk=64 shards=1");
  const Tuning tuning = tunable::tuning_of(*parsed, rows);
  CHECK(tuning.chunk == 64);
  CHECK(tuning.shards == 1);
}

// The bug: a list without the newest tunables was read past its end.
TEST_CASE("a tuning of fewer values keeps its initial ones", "[tunable]") {
  const Tuning tuning = tunable::tuning_of({{"chunk", 64}}, rows);
  CHECK(tuning.chunk == 64);
  CHECK(tuning.shards == Tuning{}.shards);
}

TEST_CASE("tunables that are not named keep the base's value", "[tunable]") {
  const auto parsed = tunable::parse("chunk=16", space, {{"chunk", 64}, {"shards", 1}});
  REQUIRE(parsed);
  CHECK(tunable::to_text(*parsed) == "chunk=16 shards=1");
  CHECK(tunable::to_text(*tunable::parse("", space, defaults)) == "chunk=32 shards=2");
}

TEST_CASE("a row's initial value is its field's", "[tunable]") {
  CHECK(space.at(0).initial == 32);
  CHECK(space.at(1).initial == 2);
}

TEST_CASE("a wrong tuning is refused by name, value and list", "[tunable]") {
  CHECK(refusal("chunks=32") == "tuning: there is no tunable 'chunks'; there are chunk, shards");
  CHECK(refusal("chunk=48") == "tuning: chunk = 48 is not one of 16, 32, 64");
  CHECK(refusal("chunk=0") == "tuning: chunk = 0 is not one of 16, 32, 64");
  CHECK(refusal("chunk=big") == "tuning: chunk = 'big' is not an integer");
  CHECK(refusal("chunk=") == "tuning: chunk = '' is not an integer");
  CHECK_THAT(refusal("chunk"), test::contains("no '='"));
  CHECK_THAT(refusal("chunk=16 chunk=32"), test::contains("chunk is given twice"));
}

TEST_CASE("enumerate gives every combination once", "[tunable]") {
  const auto all = tunable::enumerate(space);
  REQUIRE(all.size() == 6);
  CHECK(tunable::to_text(all.front()) == "chunk=16 shards=1");
  CHECK(tunable::to_text(all.back()) == "chunk=64 shards=2");
  CHECK(tunable::enumerate({}).size() == 1);
}

TEST_CASE("every default of the chunk strategy is worth trying", "[tunable]") {
  const auto values = tunable::values_of(abi::chunk::Tuning{}, abi::chunk::tunables);
  CHECK(tunable::parse(tunable::to_text(values), tunable::space_of(abi::chunk::tunables), values));
}
