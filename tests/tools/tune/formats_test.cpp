// What people are told programs are told, too.
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"

using namespace kda;
using kda::test::Json;

namespace {

test::Ran ran_for_one_kernel(std::vector<std::string> words, const std::string& cache) {
  words.insert(words.end(), {"T=64 H=2 K=16 V=16", "--strategy", "recurrent", "--arch", "sm_89",
                             "--cache-dir", cache, "-q"});
  return test::kda_tune(std::move(words));
}

}  // namespace

// The bug: the problem, the device, a file's path and how many were looked at were lines for people
// alone.
TEST_CASE("JSON has the lines that stand above tables", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c", file = scratch / "k.kdab";
  const auto document = [](const test::Ran& ran) {
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return Json::parse(ran.out);
  };
  const Json made = document(ran_for_one_kernel({"bundle", "create", file, "--json"}, dir));
  CHECK(test::text(made["bundle"][0]["file"]) == file);
  CHECK(made["bundle"][0]["kernels"] == 1);
  const Json bundle = document(test::kda_tune({"bundle", "verify", file, "--json"}));
  CHECK(bundle["verified"][0]["entries"] == 1);

  const Json cache = document(test::kda_tune({"cache", "verify", "--cache-dir", dir, "--json"}));
  CHECK(cache["verified"][0]["entries"] == 1);
  CHECK(cache["verified"][0]["damaged"] == 0);
  const std::string key = test::text(made["entries"][0]["key"]);
  const Json shown = document(test::kda_tune({"cache", "show", key, "--cache-dir", dir, "--json"}));
  CHECK_THAT(test::text(shown["file"][0]["path"]), test::contains(dir + "/v1/objects/"));

  const Json asked = document(ran_for_one_kernel({"explain", "--json"}, dir))["asked"][0];
  CHECK_THAT(test::text(asked["problem"]), test::contains("T=64") && test::contains("K=16"));
  CHECK(test::text(asked["device"]) == "sm_89");
  CHECK(asked["present"] == false);
  const Json pack = document(test::kda_tune(
      {"explain", "T=8192 N=8 H=16 varlen=1", "--arch", "h200", "--json"}))["asked"][0];
  CHECK(pack.contains("lengths"));
}

// The bug: dump --ptx -o md had a table alone, and no PTX.
TEST_CASE("dump has what was asked for in Markdown, too", "[tools]") {
  const test::Scratch scratch;
  const test::Ran ran = ran_for_one_kernel({"dump", "--ptx", "-o", "md"}, scratch / "c");
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.out.starts_with("```\n"));
  CHECK(ran.out.ends_with("```\n"));
  CHECK_THAT(ran.out, test::contains(".target sm_89"));
}
