#include <fstream>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"
#include "tune/journal.hpp"
#include "tune/plot_page.hpp"
#include "tune/records.hpp"

using namespace kda;
using kda::test::Json;

namespace {

// As a search would leave it: one right, one that crashed, and words that would end the page's
// script.
std::string journal_in(const test::Scratch& scratch) {
  const tune::Record record = test::record_of(test::problem_in_words("T=300 H=2"));
  const tune::JournalHeader header{record.problem, record.lengths, record.environment, "halving", 1,
                                   "today"};
  auto journal = tune::Journal::open(scratch / "j.jsonl", header, false);
  REQUIRE(journal);
  tune::Measurement m;
  m.candidate = test::recurrent();
  m.time_us = {.n = 3, .median = 42, .iqr = 1, .min = 41};
  journal->append(m);
  m.time_us = {};
  m.outcome = tune::Outcome::crash;
  journal->append(m);
  tune::Record said = record;
  said.decision = "</script><b>";
  journal->finish(said);
  return scratch / "j.jsonl";
}

}  // namespace

TEST_CASE("a journal becomes a page that needs nothing else", "[tools]") {
  const test::Scratch scratch;
  const std::string journal = journal_in(scratch), file = scratch / "page.html";
  const test::Ran ran = test::kda_tune({"plot", journal, "--out", file});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  std::ifstream in(file);
  const std::string page(std::istreambuf_iterator<char>(in), {});
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("</script>") == page.rfind("</script>"));
  for (const char* outside : {" src=", "href=", "@import", "url("}) {
    CHECK(page.find(outside) == std::string::npos);
  }
  const std::size_t begin = page.find("const searches = ") + 17;
  const Json data = Json::parse(page.substr(begin, page.find(";\nconst $") - begin));
  REQUIRE(data.size() == 1);
  REQUIRE(data[0]["rows"].size() == 1);
  CHECK(data[0]["rows"][0][0] == "recurrent");
  CHECK(data[0]["rows"][0][1] == Json({64, 16, 2, 2}));
  CHECK(data[0]["rows"][0][5] == 42);
  CHECK(data[0]["refused"] == Json({{"crash", 1}}));
  CHECK(test::text(data[0]["winner"]).starts_with("recurrent "));
  CHECK(data[0]["roof"]["flops"].get<double>() == 7.0 * 300 * 2 * 128 * 128);
  CHECK(data[0]["strategies"].contains("chunk"));
}

TEST_CASE("what is no journal is refused", "[tools]") {
  const test::Scratch scratch;
  std::ofstream(scratch / "x") << "{}\n";
  CHECK(test::kda_tune({"plot", scratch / "x", "--out", scratch / "page.html"}).code == 2);
}

// The bug: the page took the place of the journal that it was of, and no search could be resumed.
TEST_CASE("a page is not written over its journal", "[tools]") {
  const test::Scratch scratch;
  const std::string journal = journal_in(scratch);
  const test::Ran ran = test::kda_tune({"plot", journal, "--out", scratch / "./j.jsonl"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, test::contains("is a journal of a search"));
  CHECK(tune::read_journal(journal));
}
