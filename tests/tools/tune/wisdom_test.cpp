// kda-tune wisdom and kda-tune compare.
#include "tune/wisdom.hpp"

#include <algorithm>
#include <fstream>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/run_tool.hpp"
#include "tune/records.hpp"
#include "tune/request.hpp"

using namespace kda;
using kda::test::Json;

namespace {

test::Ran run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "kda-tune");
  return test::run_tool(&tune_tool::main_of_tune, arguments);
}

std::string out_of(const std::vector<std::string>& arguments, int code = 0) {
  const test::Ran ran = run(arguments);
  INFO(ran.err);
  REQUIRE(ran.code == code);
  return ran.out;
}

std::size_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

TEST_CASE("wisdom goes out, comes in, is merged and pruned", "[tools]") {
  const test::Scratch scratch;
  const std::string here = scratch / "here", there = scratch / "there";
  const Problem first = test::problem_in_words("T=300 H=2"),
                second = test::problem_in_words("T=600 H=2");
  {
    tune::Wisdom wisdom(here, "");
    REQUIRE(wisdom.add(test::record_of(first)));
    REQUIRE(wisdom.add(test::record_of(second)));
  }
  CHECK(out_of({"wisdom", "path", "--wisdom-dir", here}) == here + "\n");
  const Json listed =
      Json::parse(out_of({"wisdom", "ls", "--own", "--wisdom-dir", here, "-o", "json"}));
  REQUIRE(listed["records"].size() == 2);
  const std::string key = test::text(listed["records"][0]["key"]);
  CHECK_THAT(out_of({"wisdom", "show", key.substr(0, 10), "--wisdom-dir", here}),
             test::contains("time_us"));
  CHECK(run({"wisdom", "show", "zz", "--wisdom-dir", here}).code == 1);

  const std::string lines = out_of({"wisdom", "export", "--own", "--wisdom-dir", here});
  CHECK(lines_in(lines) == 2);
  std::ofstream(scratch / "a.jsonl") << lines;
  std::ofstream(scratch / "b.jsonl") << lines << "damage\n";
  CHECK(lines_in(out_of({"wisdom", "merge", scratch / "a.jsonl", scratch / "a.jsonl"})) == 2);
  CHECK(run({"wisdom", "import", scratch / "b.jsonl", "--wisdom-dir", there}).code == 1);
  out_of({"wisdom", "import", scratch / "b.jsonl", "--lenient", "--wisdom-dir", there});
  CHECK(lines_in(out_of({"wisdom", "export", "--own", "--wisdom-dir", there})) == 2);

  CHECK(run({"wisdom", "prune", "--wisdom-dir", there}).code == 2);
  CHECK(out_of({"wisdom", "verify", "--wisdom-dir", there, "-o", "jsonl"}).size() <= 1);
  CHECK(out_of({"wisdom", "prune", "--of-device", "NVIDIA H200", "--wisdom-dir", there}) ==
        "2 removed\n");

  // What was exported can be compared with itself.
  out_of({"compare", scratch / "a.jsonl", scratch / "a.jsonl", "--fail-on", "slow,gone,new"});
  std::string slower = lines;
  const std::size_t at = slower.find("\"median\":100");
  REQUIRE(at != std::string::npos);
  std::ofstream(scratch / "c.jsonl") << slower.replace(at, 12, "\"median\":140");
  CHECK(run({"compare", scratch / "a.jsonl", scratch / "c.jsonl", "--fail-on", "slow"}).code == 1);
  CHECK(run({"compare", scratch / "a.jsonl", scratch / "c.jsonl"}).code == 0);
  CHECK(run({"compare", scratch / "a.jsonl"}).code == 2);
}
