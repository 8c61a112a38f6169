#include "compose/code.hpp"

#include "compose/embedded.hpp"
#include "support/catch.hpp"

using kda::compose::code_of;

TEST_CASE("code is what is left without comments", "[compose]") {
  CHECK(code_of("").empty());
  CHECK(code_of("// all of it").empty());
  CHECK(code_of("int a;  // one\n\n  int b;\n") == "int a;\n  int b;\n");
  CHECK(code_of("int /* two */ a;") == "int   a;\n");
  CHECK(code_of("a /* over\nlines */ b\n/* open") == "a   b\n");
  // What looks like one in a string is none, nor does a quote in a comment begin a string.
  CHECK(code_of("asm(\"// no\"); // isn't\nx = '\"'; // y") == "asm(\"// no\");\nx = '\"';\n");
  CHECK(code_of("s = \"a\\\"//\"; // t") == "s = \"a\\\"//\";\n");
  CHECK(code_of("s = \"\\") == "s = \"\\\n");
  CHECK(code_of("1'000 // n\n2") == "1'000 // n\n2\n");  // keeps too much rather than too little
}

// A better comment made every shipped record "measured with other kernel templates".
TEST_CASE("a comment is not code, every statement is", "[compose]") {
  for (const kda::compose::EmbeddedFile& file : kda::compose::embedded_files()) {
    INFO(file.path);
    const std::string text(file.text), code = code_of(text);
    CHECK(code.size() < text.size());
    CHECK(code_of(code) == code);
    CHECK(code_of("// more\n" + text + "\n/* and more */") == code);
    CHECK(code_of(text + "int more;\n") == code + "int more;\n");
  }
}
