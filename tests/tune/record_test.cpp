#include "tune/record.hpp"

#include <string>

#include "abi/recurrent.h"
#include "support/catch.hpp"
#include "tune/json.hpp"
#include "tune/records.hpp"

using namespace kda;
using test::problem_in_words;
using test::record_of;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  INFO(from << " in " << text);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

tune::Record some_record() { return record_of(problem_in_words("T=300 H=2 K=32 V=32")); }

}  // namespace

TEST_CASE("a record survives its line", "[tune]") {
  const tune::Record r = record_of(problem_in_words("T=300 N=3 H=2 HV=4 K=32 V=32 varlen=1"));
  const std::string line = to_json(r);
  CHECK(line.find('\n') == std::string::npos);
  const auto back = tune::parse_record(line);
  INFO(back.status().message());
  REQUIRE(back);
  CHECK(back->problem == r.problem);
  CHECK(back->lengths == r.lengths);
  CHECK(back->environment == r.environment);
  CHECK(back->winner == r.winner);
  CHECK(back->time_us.median == 100);
  CHECK(back->needs.registers == 64);
  CHECK(back->fallback == r.fallback);
  CHECK(back->fallback_us == 125);
  CHECK(back->rejected == r.rejected);
  CHECK(back->by_strategy.size() == 1);
  CHECK(back->by_strategy.front().candidate == r.winner);
  CHECK(back->date == r.date);
  CHECK(to_json(*back) == line);
}

TEST_CASE("a record that this library cannot use is refused, naming what is wrong", "[tune]") {
  const std::string line = to_json(record_of(problem_in_words("T=300 H=2")));
  const struct {
    const char *from, *to, *why;
  } rows[] = {
      {"{\"kda_wisdom\":1", "{\"kda_wisdom\":2", "format 2 is newer"},
      {"{\"kda_wisdom\":1", "{\"kda_wisdom\":\"1\"", "kda_wisdom is not a whole number"},
      {"{\"kda_wisdom\":1,", "{", "kda_wisdom is missing"},
      {"T=300", "T=x", "'x' is not an integer"},
      {"H=2", "heads=2", "no word 'heads'"},
      {"\"strategy\":\"recurrent\"", "\"strategy\":\"magic\"", "strategy = \"magic\""},
      {"lanes=16", "speed=16", "no tunable 'speed'"},
      {"lanes=16", "lanes=17", "lanes = 17 is not one of"},
      {"threads=64 lanes=16 columns=2 stages=2", " ", "tuning is empty"},
      {"\"median\":100.0", "\"median\":0", "time_us.median is not above 0"},
      {"\"median\":100.0", "\"median\":null", "is not above 0"},
      {"\"capability\":\"9.0\"", "\"capability\":\"9\"", "capability"},
      {"\"date\":", "\"day\":", "date is missing"},
      {"}", "", "is no JSON"},
  };
  for (const auto& row : rows) {
    INFO(row.from << " -> " << row.to);
    const auto record = tune::parse_record(replaced(line, row.from, row.to));
    REQUIRE_FALSE(record);
    // Of another version of the library, or damaged.
    const std::string_view from = row.from;
    const bool another = std::string_view(row.why).starts_with("format") ||
                         from.starts_with("\"strategy") || from.starts_with("lanes") ||
                         from.starts_with("threads") || from.starts_with("T=") ||
                         from.starts_with("H=");
    CHECK(record.status().code() == (another ? Code::unsupported : Code::invalid_argument));
    CHECK_THAT(record.status().message(), test::contains(row.why));
  }
  for (const char* text : {"", "null", "[]", "7", "{}", "{\"kda_wisdom\":1}", "\xff\xfe"}) {
    INFO(text);
    CHECK_FALSE(tune::parse_record(text));
  }
  // What a newer library adds is passed over.
  CHECK(tune::parse_record(replaced(line, "{\"kda_wisdom\":1", "{\"mood\":[1],\"kda_wisdom\":1")));
}

// The bug: the first new tunable of chunk_wgmma, columns, made every record that names that
// strategy unreadable, the shipped ones included, and h12_4x2048 took 91 us for 85.
TEST_CASE("a record older than a tunable has what kernels did before it", "[tune]") {
  const std::string line = to_json(record_of(problem_in_words("T=300 H=2")));
  const auto older = tune::parse_record(replaced(line, " lanes=16", ""));
  REQUIRE(older);
  const std::string lanes = "lanes=" + std::to_string(abi::recurrent::Tuning{}.lanes);
  CHECK_THAT(tunable::to_text(older->winner.tuning), test::contains(lanes));
}

TEST_CASE("the key is the problem, less what no speed depends on", "[tune]") {
  const Problem problem = problem_in_words("T=300 H=2");
  const auto same = [&](const char* words) {
    return tune::key_of(problem) == tune::key_of(problem_in_words(words));
  };
  CHECK(same("T=300 H=2 scale=2"));
  CHECK(same("T=300 H=2 lower_bound=-3"));
  CHECK(same("T=300 H=2 cu_seqlens=i32"));  // dense: nobody reads them
  // The bug: what was measured where no group or slab serves was an exact match where they do.
  CHECK_FALSE(same("T=300 H=2 lower_bound=-10"));
  CHECK_FALSE(same("T=300 H=2 lower_bound=-200"));
  CHECK_FALSE(same("T=300 H=2 scale=4096"));
  CHECK_FALSE(same("T=301 H=2"));
  CHECK_FALSE(same("T=300 H=4"));
  CHECK_FALSE(same("T=300 H=2 HV=4"));
  CHECK_FALSE(same("T=300 H=2 N=2"));
  CHECK_FALSE(same("T=300 H=2 K=64"));
  CHECK_FALSE(same("T=300 H=2 ht=1"));
  CHECK_FALSE(same("T=300 H=2 qkv=f16"));
  CHECK_FALSE(same("T=300 H=2 gate=softplus"));
}

TEST_CASE("an environment's digest changes with each of its fields", "[tune]") {
  const tune::Environment base = record_of(problem_in_words("T=300 H=2")).environment;
  const auto changed = [&](auto change) {
    tune::Environment other = base;
    change(other);
    return digest(other) != digest(base);
  };
  CHECK(digest(base).size() == 16);
  CHECK(changed([](auto& e) { e.device = "NVIDIA H100"; }));
  CHECK(changed([](auto& e) { e.minor = 1; }));
  CHECK(changed([](auto& e) { e.multiprocessors = 66; }));
  CHECK(changed([](auto& e) { e.l2_bytes /= 2; }));
  CHECK(changed([](auto& e) { e.templates = "0"; }));
  CHECK(changed([](auto& e) { e.compiler += " "; }));
  CHECK(changed([](auto& e) { e.policy = "eager"; }));
}

TEST_CASE("a measurement survives its line, a wrong one's NaN too", "[tune]") {
  tune::Measurement m;
  m.candidate = test::recurrent();
  m.outcome = tune::Outcome::wrong;
  m.why = "o: 7 elements are \"NaN\"\n";
  m.rung = 1;
  m.at_seconds = 2.5;
  m.device = 3;
  m.o_error = std::numeric_limits<double>::quiet_NaN();
  m.state_error = 0.25;
  m.needs.registers = 99;
  const auto back = tune::parse_measurement(to_json(m));
  INFO(back.status().message());
  REQUIRE(back);
  CHECK(back->outcome == tune::Outcome::wrong);
  CHECK(back->why == m.why);
  CHECK(back->candidate == m.candidate);
  CHECK(back->device == 3);
  CHECK(back->at_seconds == 2.5);
  CHECK(std::isnan(back->o_error));
  CHECK(back->state_error == 0.25);
  CHECK(back->needs.registers == 99);
}

TEST_CASE("every byte of a record bent in turn is refused, or reads as something sound", "[tune]") {
  const std::string line = to_json(record_of(problem_in_words("T=300 H=2")));
  for (std::size_t at = 0; at < line.size(); ++at) {
    for (const int bits : {0x01, 0x20, 0x80}) {
      std::string bent = line;
      bent[at] = static_cast<char>(bent[at] ^ bits);
      const auto record = tune::parse_record(bent);
      if (!record) continue;
      REQUIRE(
          tune::parse_candidate(record->winner.strategy, tunable::to_text(record->winner.tuning)));
      REQUIRE(record->time_us.median > 0);
      // What was read can be written and read again.
      REQUIRE(tune::parse_record(to_json(*record)));
    }
    REQUIRE_FALSE(tune::parse_record(line.substr(0, at)));
  }
}

// The bug: a file of 200 KB ended every process that looked for measurements, as copies of what is
// nested recurse until no stack is left.
TEST_CASE("what nests deeply is no JSON", "[tune]") {
  const std::string line = to_json(some_record());
  const auto nested = [&](std::size_t depth) {
    const std::string x = std::string(depth, '[') + std::string(depth, ']');
    return "{\"x\":" + x + "," + line.substr(1);
  };
  CHECK(tune::parse_record(nested(20)));
  for (const std::size_t depth : {40U, 100'000U, 1'000'000U}) {
    const auto parsed = tune::parse_record(nested(depth));
    CHECK_FALSE(parsed);
    CHECK_THAT(parsed.status().message(), test::contains("wisdom: is no JSON"));
    CHECK(tune::parse_json(nested(depth)).is_discarded());
  }
  // Brackets within text are text.
  const std::string text =
      "{\"x\":\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"," + line.substr(1);
  CHECK(tune::parse_record(text));
}

// The bug: the time of another strategy was believed whatever it was, and explain promised -1 us.
TEST_CASE("times of other strategies that are none are left out", "[tune]") {
  tune::Record r = some_record();
  REQUIRE(tune::parse_record(to_json(r))->by_strategy.size() == 1);
  for (const double median : {-1.0, 0.0}) {
    r.by_strategy[0].time_us.median = median;
    CHECK(tune::parse_record(to_json(r))->by_strategy.empty());
  }
}
