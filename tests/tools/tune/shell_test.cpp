// The man page and the completion hold all that the help does.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>

#include "cli/completion.hpp"
#include "cli/manual.hpp"
#include "cli/synopsis.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/tune/kda_tune.hpp"

using namespace kda;

namespace {

std::string said(const std::vector<std::string>& arguments) {
  const test::Ran ran = test::kda_tune(arguments);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  return ran.out;
}

}  // namespace

TEST_CASE("the man page has every subcommand, option and variable", "[tools]") {
  const std::string page = said({"manual"});
  for (const char* text :
       {".TH KDA\\-TUNE 1", ".SS tune", ".SS wisdom prune", ".SS bundle create", ".SS compare",
        "\\-\\-max\\-evals", "table, json, jsonl, csv", ".B KDA_CACHE_DIR", "Exit codes:"}) {
    CHECK_THAT(page, test::contains(text));
  }
  CHECK(page.find("worker") == std::string::npos);  // not for people
}

TEST_CASE("completion knows subcommands, choices, cases and models", "[tools]") {
  const test::Scratch scratch;
  const std::string script = said({"completion", "bash"});
  std::ofstream(scratch / "kda-tune.bash") << script;
  std::ofstream(scratch / "ask.bash") << R"(
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_kda_tune
printf '%s\n' "${COMPREPLY[@]}"
)";
  const auto offered = [&](const std::string& words) {
    const std::string command = "bash " + (scratch / "ask.bash") + " " +
                                (scratch / "kda-tune.bash") + " " + words + " > " +
                                (scratch / "said") + " 2>&1";
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream in(scratch / "said");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  CHECK(offered("kda-tune wis") == "wisdom\n");
  CHECK(offered("kda-tune tune --method ha") == "halving\n");
  CHECK(offered("kda-tune tune kimi-l") == "kimi-linear-48b\n");
  CHECK(offered("kda-tune wisdom pru") == "prune\n");
  CHECK(offered("kda-tune build --strategy recu") == "recurrent\n");
  CHECK_THAT(said({"completion", "zsh"}), test::contains("#compdef kda-tune"));
  CHECK_THAT(said({"completion", "fish"}), test::contains("complete -c kda-tune -f"));
}

TEST_CASE("a choice's words outlive the text they came from", "[tools]") {
  // Once they were views into a temporary, and the man page said "One of @J".
  CLI::App app("About.", "tool");
  std::string value;
  app.add_option("--method", value, "how")->check(CLI::IsMember({"halving", "local"}));
  const cli::Synopsis synopsis = cli::synopsis_of(app);
  CHECK_THAT(cli::manual(synopsis), test::contains("One of halving, local."));
}
