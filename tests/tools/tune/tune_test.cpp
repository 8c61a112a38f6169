// Words and options of kda-tune tune that are refused, device or not.
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/tune/kda_tune.hpp"

using namespace kda;

namespace {

void refuses(std::vector<std::string> words, const char* said) {
  words.insert(words.begin(), "tune");
  const test::Ran ran = test::kda_tune(std::move(words));
  INFO(ran.err);
  CHECK(ran.code == 2);
  CHECK(ran.out.empty());
  CHECK_THAT(ran.err, test::contains(said));
}

}  // namespace

// The bug: the page and the rows were one document on stdout.
TEST_CASE("a search's page and its rows have places of their own", "[tools]") {
  const test::Scratch scratch;
  refuses({"h64", "--json", "--plot", "-"}, "--plot - and --output -");
  refuses({"h64", "--plot", "/dev/stdout"}, "--output -");
  refuses({"h64", "--plot", scratch / "a", "--output", scratch / "./a"}, "each wants a place");
}

// The bug: the word was passed over: two regimes were one search, made twice.
TEST_CASE("a search takes no gates but mixed ones", "[tools]") {
  refuses({"T=64 H=2 gate_regime=weak,strong"},
          "gate_regime=weak,strong: a search measures by mixed");
  refuses({"h64", "gate_regime=weak"}, "leave the word out");
  CHECK(test::kda_tune({"tune", "h65", "gate_regime=mixed"}).err.find("leave the") ==
        std::string::npos);
}

// The bug: --device was passed over beside --devices.
TEST_CASE("one device or several are named, not both", "[tools]") {
  refuses({"h64", "--device", "1", "--devices", "0"}, "--device");
}

// The bug: that 0 is no limit was not said.
TEST_CASE("the help says that 0 is no limit", "[tools]") {
  const std::string help = test::kda_tune({"tune", "--help"}).out;
  CHECK_THAT(help,
             test::contains("together; 0: no limit") && test::contains("finals; 0: no limit"));
}
