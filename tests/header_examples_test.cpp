// The programs in the comments at the head of the public headers compile as they stand.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace {

namespace fs = std::filesystem;

// What an example takes for given: what stands before it, and its flags.
struct Example {
  const char* header;
  const char* before;
  const char* flags;
};

constexpr const char* kCpp = " -std=c++20 -Wno-missing-field-initializers";

const Example examples[] = {
    {"kda.hpp",
     "#include <kda/kda.hpp>\n"
     "void report(const std::string& message);\n"
     "void* allocate(std::size_t bytes);\n"
     "void example(const kda::Forward& tensors, kda::Stream stream) {\n",
     kCpp},
    {"status.hpp",
     "#include <cstdio>\n"
     "#include <kda/kda.hpp>\n"
     "void example(const kda::Problem& problem) {\n",
     kCpp},
    {"kda.h",
     "#include <kda/kda.h>\n"
     "#include <stdio.h>\n"
     "void example(void);\n"
     "void example(void) {\n",
     " -x c -std=c11 -Wpedantic"},
};

// The first block of statements in the comment that a header begins with: its lines are indented
// beyond the sentences around it and set off by an empty one.  Formulas of the second block are no
// program.
std::string example_of(const fs::path& header) {
  std::ifstream in(header);
  INFO(header);
  REQUIRE(in);
  const bool c = header.extension() == ".h";
  const std::string indent = c ? "     " : "//   ";
  std::string code;
  bool after_empty = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#") || line.ends_with("*/")) break;
    const bool empty = line.empty() || line == "//";
    if (!empty && line.starts_with(indent) && (after_empty || !code.empty())) {
      code += line.substr(indent.size()) + "\n";
    } else if (!code.empty()) {
      break;
    }
    after_empty = empty;
  }
  return code.find(';') == std::string::npos ? "" : code;
}

}  // namespace

// The bug: no test read them, so a renamed field or call left the headers' own words wrong.
TEST_CASE("the examples in the public headers compile", "[readme]") {
  const fs::path include = fs::path(KDA_SOURCE_DIR) / "include";
  std::set<std::string> known, with_one;
  for (const Example& example : examples) known.insert(example.header);
  for (const auto& each : fs::directory_iterator(include / "kda")) {
    if (!example_of(each.path()).empty()) with_one.insert(each.path().filename().string());
  }
  CHECK(with_one == known);  // a new one wants a row above

  const kda::test::Scratch scratch;
  for (const Example& example : examples) {
    const fs::path file = fs::path(scratch.path()) / "example.cpp";
    std::ofstream(file) << example.before << example_of(include / "kda" / example.header) << "}\n";
    const std::string command = std::string(KDA_CXX) + example.flags +
                                " -Wall -Wextra -Werror -fsyntax-only -I" + include.string() + " " +
                                file.string();
    INFO(example.header << ": " << command);
    CHECK(std::system(command.c_str()) == 0);
  }
}
