#include "compile/elf.hpp"

#include "compile/kernels.hpp"
#include "support/catch.hpp"

namespace compile = kda::compile;
using kda::test::contains;

TEST_CASE("an image is checked for what it is") {
  const auto build = compile::compile(kda::test::job_for("sm_90a"), {});
  REQUIRE(build);
  const std::string& cubin = build->cubin;
  CHECK(compile::check_cubin(cubin, "kernel").empty());
  CHECK_THAT(compile::check_cubin(cubin, "kerne"), contains("defines no kernel kerne"));
  CHECK_THAT(compile::check_cubin("", "kernel"), contains("empty"));
  CHECK_THAT(compile::check_cubin("//\n.version 9.0", "kernel"), contains("no ELF"));
  std::string other = cubin;
  other[18] = 62;  // e_machine: x86-64
  CHECK_THAT(compile::check_cubin(other, "kernel"), contains("machine 62"));
}

TEST_CASE("no cut and no flipped byte makes the check read outside the image") {
  const auto build = compile::compile(kda::test::job_for("sm_89"), {});
  REQUIRE(build);
  for (std::size_t bytes = 0; bytes < build->cubin.size(); ++bytes) {
    const std::string cut = build->cubin.substr(0, bytes);
    CHECK_NOTHROW(compile::check_cubin(std::string(cut.begin(), cut.end()), "kernel"));
  }
  for (std::size_t at = 0; at < build->cubin.size(); ++at) {
    std::string flipped = build->cubin;
    flipped[at] = static_cast<char>(~flipped[at]);
    CHECK_NOTHROW(compile::check_cubin(flipped, "kernel"));
  }
}
