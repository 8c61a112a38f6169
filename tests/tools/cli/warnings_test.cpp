// What the library warns of is said by programs, where it is silent by itself.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "support/words.hpp"

using namespace kda;

// The gap: kda-tune build, which fills a container's cache, said nothing where that could not be
// written: its exit code was 0 and no kernel was there.
TEST_CASE("kda-tune says that it cannot keep what it compiles", "[tools]") {
  const test::Scratch scratch;
  std::ofstream(scratch / "file");
  const auto said = [&](const std::string& environment) {
    const std::string command =
        "env -u KDA_LOG KDA_CACHE_DIR=" + (scratch / "file/cache") + " " + environment +
        " " KDA_BINARY_DIR
        "/tools/kda-tune build \"T=1 H=1\" --strategy recurrent --arch sm_90a > " +
        (scratch / "out") + " 2> " + (scratch / "err");
    CHECK(std::system(command.c_str()) == 0);
    std::ifstream err(scratch / "err");
    return std::string(std::istreambuf_iterator<char>(err), {});
  };
  CHECK_THAT(said(""), test::contains("cannot write to " + (scratch / "file/cache")));
  CHECK(said("KDA_LOG=off").find("cannot write") == std::string::npos);
}
