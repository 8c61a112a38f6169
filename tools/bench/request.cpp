// The command line of kda-bench.
#include "bench/request.hpp"

#include <CLI/CLI.hpp>

#include "bench/run.hpp"
#include "cli/build_info.hpp"
#include "cli/command_line.hpp"
#include "cli/exit_code.hpp"
#include "cli/limits.hpp"
#include "problem/problem.hpp"

namespace kda::bench {
namespace {

constexpr const char* kAbout =
    "Measures KDA prefill on this machine's GPU.\n"
    "Every variant is verified against the fp64 reference before it is timed; a wrong one is\n"
    "reported, not timed, and makes the exit code 1.";

constexpr const char* kExamples =
    "Examples:\n"
    "  kda-bench --list                               the named cases and what others need for "
    "them\n"
    "  kda-bench h64 h16                              two cases, strong gate\n"
    "  kda-bench h64 --gate-regime strong,weak,mixed  one case, three regimes\n"
    "  kda-bench --suite prefill --json h200.json     every case in every regime\n"
    "  kda-bench --suite linear                       whether time and memory grow as T does\n"
    "  kda-bench --suite decode                       a token and a few, states in pools\n"
    "  kda-bench --suite serving                      checkpoints, decodes beside a prefill\n"
    "  kda-bench --suite original                     the first kda_prefill's sizes, in f32\n"
    "  kda-bench \"T=8192 H=64 gate_regime=weak\"       a problem in words\n"
    "  kda-bench \"H=12 seqlens=1300,547,2048 K=64\"    packed sequences of these lengths\n"
    "  kda-bench \"h64 g=f32\" --strategy chunk --strategy recurrent\n"
    "  kda-bench h16 --strategy chunk --tuning \"chunk=16,32,64 shards=2,4\"   six variants, "
    "interleaved\n"
    "  ncu kda-bench h64 --profile                    each variant once, nothing else\n";

// The words come from the library, with the setting of the cases as their defaults.
std::string words_help() {
  Problem setting;
  setting.initial_state = setting.final_state = true;
  return "A problem in words: an optional case name, then name=value.  The words and their "
         "defaults:\n" +
         problem::explain_words(setting) +
         "Words of the inputs:\n"
         "  gate_regime=strong|weak|mixed   mean log decay of a token: -3, -1e-3, both by channel\n"
         "  seqlens=1300,547,...            packed sequences; sets varlen, N and T\n"
         "Any other value may be a list or a range: T=1024,8192 is two problems, T=512..8192*2 "
         "five,\n"
         "H=16..64:16 four.  A model's name, kimi-linear-48b, is its layers' problem; tp=4 or --tp "
         "4\n"
         "splits the heads.\n";
}

void add_what(CLI::App& app, Request& request) {
  app.add_option("problem", request.problems, "case and model names, or problems in words")
      ->type_name("CASE|WORDS");
  app.add_option("--tp", request.tp, "devices that split the heads of a model")
      ->check(cli::whole(1, cli::kMostDevices));
  app.add_option(
         "--suite", request.suite,
         "prefill: all cases in the three gate regimes; linear: T from 8192 to 1048576; the "
         "others: see the examples")
      ->check(CLI::IsMember({"prefill", kLinear, kDecode, kServing, kOriginal}));
  app.add_option("--gate-regime", request.regimes, "gate regimes of the named problems")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"strong", "weak", "mixed"}));
  app.add_option("--strategy", request.strategies, "measure this strategy; repeat to compare")
      ->allow_extra_args(false);
  app.add_option("--tuning", request.tunings,
                 "fix these tunables, \"chunk=32 shards=2\"; lists and repeats are compared")
      ->allow_extra_args(false);
  app.add_flag("--list", request.list, "print the cases and stop");
}

void add_how(CLI::App& app, Request& request) {
  app.add_option("--repeats", request.repeats, "replays of each graph")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--calls", request.calls, "calls in a graph, at least")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--heads", request.heads, "heads verified against fp64 (over T = 32768: one)")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--seed", request.seed, "of the inputs")
      ->capture_default_str()
      ->check(cli::whole(0, cli::kMostSeed));
  app.add_option("--beta", request.beta,
                 "how strongly every token is written; 0 with weak gates: nothing is forgotten")
      ->check(cli::number(0, 1));
  app.add_option("--time-budget", request.time_budget,
                 "seconds; what is left then is skipped; 0: no limit")
      ->check(cli::number(0, cli::kMostSeconds));
  app.add_flag("--quick", request.quick,
               "5 replays, one head verified, no compile times, unless these are named");
  app.add_flag("--compile,!--no-compile", request.compile_times,
               "also time cold and cached plans (on by default)");
  app.add_flag("--profile", request.profile, "run each variant once, unverified, for ncu");
  app.add_option("--device", request.device, "CUDA ordinal; default: 0")
      ->check(cli::whole(0, cli::kMostDevices - 1));
  app.add_option("--cache-dir", request.cache_dir, "compiled kernels; default: as the library")
      ->check(cli::directory_name());
}

void add_output(CLI::App& app, Request& request) {
  const auto add_file = [&](const char* name, std::string& file, const char* about,
                            const char* example) {
    app.add_option(name, file, about)->type_name("FILE|-")->check(cli::file_name(example));
  };
  add_file("--json", request.json, "one JSON array, a row a line", "rows.json");
  add_file("--md", request.md, "the table in Markdown", "rows.md");
  add_file("--csv", request.csv, "every value of every row", "rows.csv");
  app.add_flag("--quiet", request.quiet, "no progress on stderr");
}

}  // namespace

int main_of_bench(int argc, const char* const* argv, std::FILE* out, std::FILE* err) {
  Request request;
  request.command = cli::command_line(argc, argv);
  request.out = out;
  request.err = err;
  CLI::App app(kAbout, "kda-bench");
  app.set_version_flag("--version", std::string(cli::version()) + " " + cli::commit());
  app.footer("\n" + words_help() + "\n" + kExamples + "\n" + cli::kExitCodes);
  add_what(app, request);
  add_how(app, request);
  add_output(app, request);
  return cli::run(app, argc, argv, out, err, [&] {
    if (request.quick) {
      if (app.count("--repeats") == 0) request.repeats = 5;
      if (app.count("--heads") == 0) request.heads = 1;
      if (app.count("--compile") == 0) request.compile_times = false;
    }
    if (request.suite == kLinear) request.compile_times = false;  // kernels do not depend on T
    return run(request);
  });
}

}  // namespace kda::bench
