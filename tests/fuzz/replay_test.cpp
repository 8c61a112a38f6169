// The fuzzers' small corpora, and what they once found, in every run of the tests.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fuzz/targets.hpp"
#include "support/catch.hpp"

namespace fs = std::filesystem;

TEST_CASE("every input of the corpora is parsed or refused, whole, cut and bent", "[fuzz]") {
  for (const kda::fuzz::Target& target : kda::fuzz::targets) {
    int inputs = 0;
    for (const auto& file :
         fs::directory_iterator(fs::path(KDA_SOURCE_DIR) / "tests/fuzz/corpus" / target.name)) {
      std::ifstream in(file.path(), std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      const std::string bytes = text.str();
      INFO(file.path());
      CHECK_NOTHROW(target.run(bytes));
      const std::size_t step = bytes.size() / 64 + 1;
      for (std::size_t at = 0; at < bytes.size(); at += step) {
        std::string bent = bytes;
        bent[at] = static_cast<char>(~bent[at]);
        REQUIRE_NOTHROW(target.run(bent));
        REQUIRE_NOTHROW(target.run(bytes.substr(0, at)));
        REQUIRE_NOTHROW(target.run(bytes.substr(at)));
      }
      ++inputs;
    }
    INFO(target.name);
    CHECK(inputs > 0);
  }
}
