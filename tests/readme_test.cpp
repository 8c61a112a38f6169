// README.md and the design notes say only what is so: their programs compile, their tables are the
// code's, and the paths they name exist.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "device/family.hpp"
#include "problem/problem.hpp"
#include "strategy/pick.hpp"
#include "strategy/table.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using namespace kda;

const fs::path root = KDA_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  INFO(path);
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The fenced blocks of a language, in order.
std::vector<std::string> blocks(const std::string& text, const std::string& language) {
  std::vector<std::string> found;
  const std::string fence = "```" + language + "\n";
  for (std::size_t at = 0; (at = text.find(fence, at)) != std::string::npos;) {
    at += fence.size();
    const std::size_t end = text.find("```", at);
    found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

std::vector<std::string> lines_with(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (std::regex_search(line, pattern)) found.push_back(line);
  }
  return found;
}

// The variables that the Python package alone reads, in the order of their names.
std::vector<std::string> read_by_python() {
  static const std::regex reads(R"re(environ(?:\.get\(|\[)"(\w+)")re");
  std::set<std::string> found;
  for (const auto& each : fs::recursive_directory_iterator(root / "tools/python/kda")) {
    if (each.path().extension() != ".py") continue;
    const std::string text = text_of(each.path());
    for (std::sregex_iterator at(text.begin(), text.end(), reads), end; at != end; ++at) {
      found.insert((*at)[1]);
    }
  }
  for (const auto& row : base::env::table()) found.erase(row.name);
  return {found.begin(), found.end()};
}

// Paths in `quotes` that begin with a folder of the tree and have no blank to fill in.
std::vector<std::string> paths_in(const std::string& text) {
  static const std::regex path("`((?:src|templates|include|tests|tools)/[A-Za-z0-9_./]*)`");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), path), end; at != end; ++at) {
    found.push_back((*at)[1]);
  }
  return found;
}

}  // namespace

TEST_CASE("the README's first program is the example", "[readme]") {
  const auto programs = blocks(text_of(root / "README.md"), "cpp");
  REQUIRE(programs.size() >= 2);
  CHECK(programs[0] == text_of(root / "tools/examples/first_plan.cpp"));
}

TEST_CASE("every C++ block of the README compiles by itself", "[readme]") {
  const test::Scratch scratch;
  int number = 0;
  for (const std::string& program : blocks(text_of(root / "README.md"), "cpp")) {
    const fs::path file = fs::path(scratch.path()) / ("block" + std::to_string(++number) + ".cpp");
    std::ofstream(file) << program;
    const std::string command = std::string(KDA_CXX) +
                                " -std=c++20 -Wall -Wextra -Werror -fsyntax-only"
                                " -Wno-missing-field-initializers -I" +
                                (root / "include").string() + " " + file.string();
    INFO(command);
    CHECK(std::system(command.c_str()) == 0);
  }
}

TEST_CASE("every C block of the README compiles by itself", "[readme]") {
  const test::Scratch scratch;
  const auto programs = blocks(text_of(root / "README.md"), "c");
  CHECK(programs.size() >= 2);
  int number = 0;
  for (const std::string& program : programs) {
    const fs::path file = fs::path(scratch.path()) / ("block" + std::to_string(++number) + ".c");
    std::ofstream(file) << program;
    const std::string command = std::string(KDA_CXX) +
                                " -x c -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I" +
                                (root / "include").string() + " " + file.string();
    INFO(command);
    CHECK(std::system(command.c_str()) == 0);
  }
}

// The bug: KDA_LIBRARY, which the Python package reads, was in no table.
TEST_CASE("the README's environment table is the library's, then the Python package's",
          "[readme]") {
  std::vector<std::string> expected;
  for (const auto& row : base::env::table()) {
    expected.push_back(std::string("| `") + row.name + "` | " + row.meaning + " | " + row.fallback +
                       " |");
  }
  auto rows = lines_with(text_of(root / "README.md"), std::regex(R"(^\| `[A-Z][A-Z_]+` \|)"));
  const std::vector<std::string> python = read_by_python();
  CHECK_FALSE(python.empty());
  REQUIRE(rows.size() == expected.size() + python.size());
  for (std::size_t i = 0; i < python.size(); ++i) {
    CHECK(rows[expected.size() + i].starts_with("| `" + python[i] + "` | the Python package only"));
  }
  rows.resize(expected.size());
  CHECK(rows == expected);
}

// The bug: V up to 8192 was said of `chunk`, which serves at most 4096.
TEST_CASE("the README's limits of V are the library's", "[readme]") {
  const std::string text = text_of(root / "README.md");
  const auto heads = lines_with(text, std::regex(R"(^\| \| `)"));
  const auto limits = lines_with(text, std::regex(R"(^\| V \| 1 to )"));
  REQUIRE(heads.size() == 1);
  REQUIRE(limits.size() == 1);
  const auto device = device::parse("sm_90a");
  REQUIRE(device);
  const auto names = base::split(heads[0], '|'), said = base::split(limits[0], '|');
  static const std::regex range(R"( 1 to (\d+) )"), quoted("`(\\w+)`");
  int checked = 0;
  for (std::size_t i = 2; i < said.size(); ++i) {
    const std::string cell(said[i]), strategies(names.at(i));
    std::smatch match;
    if (!std::regex_match(cell, match, range)) continue;
    const int most = std::stoi(match[1]);
    for (std::sregex_iterator at(strategies.begin(), strategies.end(), quoted), end; at != end;
         ++at) {
      INFO((*at)[1] << ": " << most);
      const strategy::Strategy* row = strategy::find((*at)[1].str());
      REQUIRE(row != nullptr);
      const auto served = [&](int V) {
        const auto problem = problem::complete({.heads = 2, .value_dim = V, .max_tokens = 1 << 16});
        return problem && row->applicable(*problem, *device);
      };
      CHECK(served(1));
      CHECK(served(most));
      CHECK_FALSE(served(most + 1));
      ++checked;
    }
  }
  CHECK(checked == 4);
}

// The bug: w and u were said to be served on every device, whatever K is.
TEST_CASE("the README's limits of w and u are every device's", "[readme]") {
  const std::string text = text_of(root / "README.md");
  const auto heads = lines_with(text, std::regex(R"(^\| Chunks of \|)"));
  const auto rows = lines_with(text, std::regex(R"(^\| (32|64) tokens, )"));
  REQUIRE(heads.size() == 1);
  REQUIRE(rows.size() == 4);
  const auto served = [](const device::Device& device, int chunk, DType type, int K, int V) {
    const auto problem = problem::complete({.heads = 2,
                                            .key_dim = K,
                                            .value_dim = V,
                                            .max_tokens = 1 << 12,
                                            .qkv_type = type,
                                            .wy_chunk = chunk});
    REQUIRE(problem);
    return strategy::pick(*problem, device, "", "").status().ok();
  };
  const auto holds = [&](const device::Device& device, int chunk, DType type, int most, int V) {
    INFO(device.name << " chunk " << chunk << " type " << static_cast<int>(type) << " K " << most
                     << " V " << V);
    if (most > 0) CHECK(served(device, chunk, type, most, V));
    if (most < 256) CHECK_FALSE(served(device, chunk, type, most + 1, V));
  };
  static const std::regex capability(R"((\d+)\.(\d))"), cell(R"( (\d+), (\d+|none) )");
  const auto names = base::split(heads[0], '|');
  int checked = 0;
  for (std::size_t column = 2; column + 1 < names.size(); ++column) {
    const std::string capabilities(names[column]);
    for (std::sregex_iterator at(capabilities.begin(), capabilities.end(), capability), end;
         at != end; ++at) {
      device::Device some;
      some.major = std::stoi((*at)[1]);
      some.minor = std::stoi((*at)[2]);
      const auto family = device::family_of(some);
      REQUIRE(family);
      const auto device = device::parse(family->target);
      REQUIRE(device);
      for (const DType type : {DType::f32, DType::bf16, DType::f16})
        holds(*device, 16, type, 256, 4096);
      for (const std::string& row : rows) {
        const int chunk = std::stoi(row.substr(2));
        const std::string said(base::split(row, '|').at(column));
        std::smatch most;
        INFO(row);
        REQUIRE(std::regex_match(said, most, cell));
        const bool f32 = row.find("tokens, f32") != std::string::npos;
        for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
          if ((type == DType::f32) != f32) continue;
          holds(*device, chunk, type, std::stoi(most[1]), 1024);
          holds(*device, chunk, type, most[2] == "none" ? 0 : std::stoi(most[2]), 4096);
          ++checked;
        }
      }
    }
  }
  CHECK(checked == 9 * 6);
}

TEST_CASE("the README's device table is the library's", "[readme]") {
  const auto rows =
      lines_with(text_of(root / "README.md"), std::regex(R"(^\| [0-9]+\.[0-9] \| `sm_)"));
  CHECK(rows.size() == 9);
  for (const std::string& row : rows) {
    static const std::regex shape(
        R"(^\| (\d+)\.(\d) \| `(sm_\w+)` \| [^|]+ \| `(\w+)`(?:, then `(\w+)`)? \|$)");
    std::smatch match;
    INFO(row);
    REQUIRE(std::regex_match(row, match, shape));
    device::Device device;
    device.major = std::stoi(match[1]);
    device.minor = std::stoi(match[2]);
    const auto family = device::family_of(device);
    REQUIRE(family);
    CHECK(family->target == match[3].str());
    CHECK(family->folder == match[4].str());
    CHECK(family->fallback == (match[5].matched ? match[5] : match[4]).str());
  }
}

TEST_CASE("the README names every strategy", "[readme]") {
  const std::string text = text_of(root / "README.md");
  for (const strategy::Strategy* row : strategy::table()) {
    INFO(row->name);
    CHECK(text.find(std::string("`") + row->name + "`") != std::string::npos);
  }
}

TEST_CASE("every path that the documents name exists", "[readme]") {
  for (const char* document : {"README.md", "src/README.md"}) {
    const auto paths = paths_in(text_of(root / document));
    CHECK(paths.size() > 5);
    for (const std::string& path : paths) {
      INFO(document << ": " << path);
      CHECK(fs::exists(root / path));
    }
  }
  for (const auto& log : fs::directory_iterator(root / "tools/results/log")) {
    for (const std::string& path : paths_in(text_of(log.path()))) {
      INFO(log.path() << ": " << path);
      CHECK(fs::exists(root / path));
    }
  }
}
