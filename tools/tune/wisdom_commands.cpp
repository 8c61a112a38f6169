// The command lines of kda-tune wisdom, plot and compare.
#include <CLI/CLI.hpp>

#include "cli/limits.hpp"
#include "tune/arguments.hpp"
#include "tune/commands.hpp"

namespace kda::tune_tool {
namespace {

constexpr const char* kWisdomExamples =
    "Examples:\n"
    "  kda-tune wisdom ls                             what was measured, here and elsewhere\n"
    "  kda-tune wisdom find h64 --arch h200           what a plan for it would take\n"
    "  kda-tune wisdom export --own --output a.jsonl  this machine's, a line a record\n"
    "  kda-tune wisdom import a.jsonl                 of two answers the newer stays\n"
    "  kda-tune wisdom merge a.jsonl b.jsonl          into one, on stdout\n"
    "  kda-tune wisdom prune --stale --damaged\n"
    "\nExit codes of verify: 0 no file is damaged or unreadable; 1 some are.\n";

constexpr const char* kPlotExamples =
    "Examples:\n"
    "  kda-tune plot \"$(kda-tune wisdom path)\"/v1/journal/*.jsonl --out searches.html\n"
    "  kda-tune tune h64 --plot h64.html\n";

constexpr const char* kCompareExamples =
    "Examples:\n"
    "  kda-tune compare before.json after.json\n"
    "  kda-tune compare before.json after.json --threshold 3 --fail-on slow,broke\n"
    "Takes what kda-bench --json, kda-tune tune -o json or jsonl and kda-tune wisdom export "
    "write.\n"
    "SAME: no further apart than the threshold.  FAST, SLOW: further, and more than the noise of\n"
    "both (quartile distances).  AMBG: further, but not more than the noise; or no further, but\n"
    "too noisy to be the same.  BROKE, MENDED: right in one alone.  GONE, NEW: in one alone.\n"
    "\nExit codes: 0; 1 where a row has a verdict of --fail-on; 2 a wrong word or no results.\n";

}  // namespace

void add_wisdom_commands(CLI::App& app, Request& request, Command& chosen) {
  CLI::App* wisdom =
      app.add_subcommand("wisdom", "What was measured: list it, carry it elsewhere, check it.");
  wisdom->footer(std::string("\n") + kWisdomExamples);
  wisdom->require_subcommand(1);
  const auto add_apart = [&](const char* name, const char* about, Command command, Prints prints) {
    return add_command(*wisdom, name, about, kWisdomExamples, request, command, chosen, prints);
  };
  const auto add = [&](const char* name, const char* about, Command command,
                       Prints prints = Prints::rows) {
    CLI::App* sub = add_apart(name, about, command, prints);
    sub->add_option("--wisdom-dir", request.wisdom_dir, "measurements; default: as the library")
        ->type_name("DIR")
        ->check(cli::directory_name());
    return sub;
  };
  const auto add_files = [&](CLI::App* sub) {
    sub->add_option("file", request.files, "JSON lines, a record each; - is stdin")
        ->type_name("FILE")
        ->required();
    sub->add_flag("--lenient", request.lenient, "pass over lines that are no sound record");
  };
  const auto add_own = [&](CLI::App* sub) {
    sub->add_flag("--own", request.own, "only the user's directory: nothing shared or shipped");
  };
  add("path", "Prints its directory and nothing else.", wisdom_path);
  add_own(add("ls", "Its records, from every source.", wisdom_ls));
  add("show", "All that the records of a problem say.", wisdom_show)
      ->add_option("key", request.key, "the first digits of a record's key")
      ->required();
  CLI::App* sub = add("find", "What a plan for a problem would find.", wisdom_find);
  add_archs(*sub, request, "");
  add_configuration(*sub, request);
  add_own(add("export", "Its records as JSON lines.", wisdom_export, Prints::lines));
  add_files(add("import", "Takes records in; of two answers the newer stays.", wisdom_import));
  add_files(add_apart("merge", "Several files into one, on stdout; nothing is kept.", wisdom_merge,
                      Prints::lines));
  add("verify", "Reads every file of the user's directory.", wisdom_verify);
  sub = add("prune", "Removes records from the user's directory, and such searches' journals.",
            wisdom_prune);
  sub->add_flag("--stale", request.prune.stale, "of other templates or compilers than now");
  sub->add_flag("--damaged", request.prune.damaged, "what verify calls damaged");
  sub->add_option("--of-device", request.prune.device,
                  "of the device of this name: h200, \"NVIDIA H200\"")
      ->type_name("NAME");
  sub->add_flag("--all", request.prune.all, "every one");

  sub = app.add_subcommand("plot", "Searches as a page: convergence, heat map, roofline, finals.");
  sub->footer(std::string("\n") + kPlotExamples);
  sub->callback([&chosen] { chosen = plot; });
  sub->add_option("journal", request.files, "journals of searches, <wisdom>/v1/journal/*.jsonl")
      ->type_name("FILE")
      ->required();
  sub->add_option("--out", request.plot, "the page")
      ->type_name("FILE|-")
      ->required()
      ->check(cli::file_name("searches.html"));

  sub = add_command(app, "compare", "Two runs, row by row: what got faster, what slower.",
                    kCompareExamples, request, compare, chosen);
  sub->add_option("files", request.files, "the earlier run and the later one")
      ->type_name("FILE")
      ->expected(2)
      ->required();
  sub->add_option("--threshold", request.threshold_percent, "percent that mean nothing")
      ->capture_default_str()
      ->check(cli::number(0, cli::kMostPercent));
  sub->add_option("--fail-on", request.fail_on, "verdicts that make the exit code 1: slow,broke")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"slow", "broke", "ambg", "gone", "new", "fast", "mended"}));
}

}  // namespace kda::tune_tool
