#include "cli/rows.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "support/catch.hpp"

using namespace kda;
using cli::Format;
using cli::Json;

namespace {

constexpr cli::Column columns[] = {{"name", "case"}, {"us.median", "µs", 1}, {"note", "note"}};

Json rows() {
  return Json::array({{{"name", "h64"}, {"us", {{"median", 1234.56}, {"n", 15}}}, {"note", "ok"}},
                      {{"name", "a,\"b\""}, {"us", {{"median", 7.0}}}},
                      {{"name", "skipped"}, {"note", "first\nsecond"}}});
}

}  // namespace

TEST_CASE("a table lines its columns up, numbers to the right", "[tools]") {
  CHECK(cli::render(rows(), columns, Format::table) ==
        "case         µs  note\n"
        "h64      1234.6  ok\n"
        "a,\"b\"       7.0  -\n"
        "skipped       -  first ...\n");
}

TEST_CASE("a table leaves out a column that no row fills", "[tools]") {
  const Json row = Json::array({{{"name", "h64"}, {"note", nullptr}}});
  CHECK(cli::render(row, columns, Format::table) == "case\nh64\n");
}

TEST_CASE("a Markdown table has its rule and edges", "[tools]") {
  CHECK(cli::render(rows(), columns, Format::md) ==
        "| case    |     µs | note      |\n"
        "| ------- | -----: | --------- |\n"
        "| h64     | 1234.6 | ok        |\n"
        "| a,\"b\"   |    7.0 | -         |\n"
        "| skipped |      - | first ... |\n");
}

TEST_CASE("JSON is one array, a row a line, and reads back whole", "[tools]") {
  const std::string text = cli::render(rows(), columns, Format::json);
  CHECK((Json::parse(text) == rows()));
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);  // [, three rows, ]
  CHECK(Json::parse(cli::render(Json::array(), columns, Format::json)).empty());
}

TEST_CASE("JSON lines read back one by one", "[tools]") {
  std::istringstream lines(cli::render(rows(), columns, Format::jsonl));
  Json back = Json::array();
  for (std::string line; std::getline(lines, line);) back.push_back(Json::parse(line));
  CHECK((back == rows()));
}

TEST_CASE("CSV carries every value of every row and quotes what needs it", "[tools]") {
  CHECK(cli::render(rows(), columns, Format::csv) ==
        "name,us.median,us.n,note\n"
        "h64,1234.56,15,ok\n"
        "\"a,\"\"b\"\"\",7.0,,\n"
        "skipped,,,\"first\nsecond\"\n");
}

TEST_CASE("small numbers keep their size", "[tools]") {
  constexpr cli::Column errors[] = {{"error", "error", 2}};
  const Json small = Json::array({{{"error", 0.00012}}, {{"error", 0.0}}, {{"error", 0.5}}});
  CHECK(cli::render(small, errors, Format::table) ==
        "  error\n"
        "1.2e-04\n"
        "   0.00\n"
        "   0.50\n");
}

TEST_CASE("an unknown format names the known ones", "[tools]") {
  const auto format = cli::parse_format("xml");
  REQUIRE_FALSE(format);
  CHECK_THAT(format.status().message(), test::contains("table, json, jsonl, csv, md"));
}

// The bug: of no rows there was an empty line, which a reader of JSON lines took for a broken one.
TEST_CASE("no rows are no lines", "[tools]") {
  CHECK(cli::render(Json::array(), columns, Format::jsonl).empty());
  CHECK(cli::render(Json::array(), columns, Format::csv).empty());
}

// The bug: a bar in a value ended its cell, and the row had one more than the table.
TEST_CASE("a bar in a Markdown table is escaped", "[tools]") {
  const Json row = Json::array({{{"name", "a|b"}}});
  CHECK_THAT(cli::render(row, columns, Format::md), test::contains("| a\\|b |"));
  CHECK_THAT(cli::render(row, columns, Format::table), test::contains("a|b"));
}
