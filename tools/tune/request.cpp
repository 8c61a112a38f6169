// The command line of kda-tune.
#include "tune/request.hpp"

#include <CLI/CLI.hpp>

#include "bench/request.hpp"
#include "cli/build_info.hpp"
#include "cli/command_line.hpp"
#include "cli/exit_code.hpp"
#include "cli/limits.hpp"
#include "cli/text_file.hpp"
#include "tune/arguments.hpp"
#include "tune/commands.hpp"
#include "tune/shell.hpp"

namespace kda::tune_tool {
namespace {

constexpr const char* kAbout =
    "Tunes the kda library and shows what it chooses, composes and compiles.";

constexpr const char* kExamples =
    "Examples:\n"
    "  kda-tune doctor                          is this machine fit?\n"
    "  kda-tune list                            strategies, tunables, devices, cases\n"
    "  kda-tune build --arch sm_89,sm_90a       compile every case for two devices\n"
    "  kda-tune explain h64                     what runs for that case, and why\n"
    "  kda-tune dump h64 --arch sm_90a --ptx    the PTX that it compiles to\n"
    "  kda-tune cache stats                     what the cache of compiled kernels holds\n"
    "  kda-tune bundle create k.kdab h64        kernels for machines without a compiler\n"
    "  kda-tune tune h64                        the fastest choice, measured on the GPU\n"
    "  kda-tune tune kimi-linear-48b --tp 4     a quarter of a model's heads, its usual runs\n"
    "  kda-tune wisdom ls                       what was measured\n"
    "  kda-tune bench h64                       kda-bench\n"
    "  kda-tune compare a.json b.json           two runs of it, or of tune\n"
    "kda-tune <subcommand> --help shows more.\n";

constexpr const char* kDoctorExamples =
    "Examples:\n"
    "  kda-tune doctor\n"
    "  kda-tune doctor --kernels                do they compute what they should?\n"
    "  kda-tune doctor --json | jq '.checks[] | select(.state != \"ok\")'\n"
    "  KDA_NVRTC_PATH=/opt/cuda/lib64 kda-tune doctor\n"
    "\nExit codes: 0 fit (a machine without a GPU can still compile); 1 something is broken;\n"
    "2 the command line is wrong.\n";

constexpr const char* kListExamples =
    "Examples:\n"
    "  kda-tune list\n"
    "  kda-tune list -o json | jq -r '.tunables[] | [.strategy, .name, (.values|join(\" \"))] | "
    "@tsv'\n";

constexpr const char* kBuildExamples =
    "Examples:\n"
    "  kda-tune build                                 every case, default tunings\n"
    "  kda-tune build --arch sm_89,sm_90a --jobs 8    for two devices, none of them present\n"
    "  kda-tune build h64 --strategy chunk --tuning \"chunk=16,32,64 shards=1,2\"\n"
    "  kda-tune build \"T=8192 H=16 K=64 V=64\" --strategy chunk --every-tuning -o csv\n"
    "What it compiles stays in the cache, ready for the first plan.\n";

constexpr const char* kExplainExamples =
    "Examples:\n"
    "  kda-tune explain h64\n"
    "  kda-tune explain \"T=8192 H=16 HV=64 seqlens=1300,6892\" --arch h200\n"
    "  kda-tune explain h16 --strategy chunk --tuning \"shards=4\" -o json\n";

constexpr const char* kTuneExamples =
    "Examples:\n"
    "  kda-tune tune h64                        measure what serves this case, record the best\n"
    "  kda-tune tune --time 600                 every case, in ten minutes\n"
    "  kda-tune tune \"T=1024..8192*2 H=16,32\"   eight problems, shared among the devices\n"
    "  kda-tune tune kimi-linear-48b --tp 4     a model's usual runs\n"
    "  kda-tune tune h16 --method exhaustive\n"
    "  kda-tune tune h16 --resume               go on where a search was stopped\n"
    "Problems are shared among the devices, and so are the candidates of one problem.  Ctrl-C\n"
    "stops and prints what was found.  --time includes compiling; only a search that is at its\n"
    "finals by then may go on, for a tenth of --time or 5 s, whichever is more.\n"
    "\nExit codes: 0; 1 where a search failed; 77 no device; 130 interrupted.\n";

constexpr const char* kDumpExamples =
    "Examples:\n"
    "  kda-tune dump h64                              the composed source of every kernel\n"
    "  kda-tune dump h64 --arch sm_90a --strategy chunk --ptx --stage prepare\n"
    "  kda-tune dump h64 --arch sm_89 --sass          needs nvdisasm or cuobjdump\n"
    "  kda-tune dump h64 --strategy chunk --tuning chunk=64 --resources\n";

void add_format(CLI::App& app, Request& request) {
  app.add_option("-o,--format", request.output.format, "table, json, jsonl, csv or md")
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "json", "jsonl", "csv", "md"}));
  app.add_flag_callback(
      "--json", [&] { request.output.format = "json"; }, "the same as -o json");
  app.add_flag("-q,--quiet", request.output.quiet, "no progress on stderr");
}

void add_file(CLI::App& app, Request& request) {
  app.add_option("--output", request.output.file, "write there instead of stdout")
      ->type_name("FILE|-")
      ->check(cli::file_name("rows.json"));
}

}  // namespace

void add_archs(CLI::App& app, Request& request, const std::string& absent) {
  app.add_option(
         "--arch", request.archs,
         "devices or targets, present or not: sm_89,sm_90a,h200; default: the device found" +
             (absent.empty() ? "" : ", else " + absent))
      ->type_name("TARGET")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_configuration(CLI::App& app, Request& request) {
  app.add_option(
         "problem", request.problems,
         "case and model names, or problems in words as kda-bench; T=512..8192*2 is a range")
      ->type_name("CASE|WORDS");
  app.add_option("--tp", request.tp, "devices that split the heads of a model")
      ->check(cli::whole(1, cli::kMostDevices));
  app.add_option("--strategy", request.strategies, "only this strategy; may be repeated")
      ->type_name("STRATEGY")
      ->allow_extra_args(false);
  app.add_option("--tuning", request.tunings, "fix these tunables, \"chunk=32 shards=2\"")
      ->allow_extra_args(false);
  app.add_option("--cache-dir", request.cache_dir, "compiled kernels; default: as the library")
      ->type_name("DIR")
      ->check(cli::directory_name());
}

void add_jobs(CLI::App& app, Request& request) {
  app.add_option("-j,--jobs", request.jobs, "compiles at once; default: as many as cores")
      ->check(cli::whole(0, cli::kMostJobs));
}

CLI::App* add_command(CLI::App& app, const char* name, const char* about, const char* examples,
                      Request& request, Command command, Command& chosen, Prints prints) {
  CLI::App* sub = app.add_subcommand(name, about);
  sub->footer(std::string("\n") + examples);
  sub->callback([&chosen, command] { chosen = command; });
  if (prints == Prints::rows) add_format(*sub, request);
  add_file(*sub, request);
  return sub;
}

int main_of_tune(int argc, const char* const* argv, std::FILE* out, std::FILE* err) {
  Request request;
  request.output.out = out;
  request.output.err = err;
  request.arguments.assign(argv, argv + argc);
  int (*chosen)(const Request&) = nullptr;
  CLI::App app(kAbout, "kda-tune");
  app.set_version_flag("--version", std::string(cli::version()) + " " + cli::commit());
  app.footer(std::string("\n") + kExamples + "\n" + cli::kExitCodes);
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* about, const char* examples,
                       int (*command)(const Request&)) {
    return add_command(app, name, about, examples, request, command, chosen);
  };

  CLI::App* sub = add(
      "doctor", "Is this machine fit: NVRTC, driver, devices, cache, measurements, environment.",
      kDoctorExamples, doctor);
  CLI::Option* kernels = sub->add_flag(
      "--kernels", request.kernels,
      "run each strategy on each device and hold it against the fp64 recurrence: a minute");
  sub->add_option("--strategy", request.strategies, "only this strategy; may be repeated")
      ->type_name("STRATEGY")
      ->allow_extra_args(false)
      ->needs(kernels);
  add("list", "The strategies, their tunables, the devices known by name, the cases.",
      kListExamples, list);

  sub = add("build", "Compiles kernels without a GPU and shows what they need.", kBuildExamples,
            build);
  add_archs(*sub, request, kSeveralAbsent);
  add_configuration(*sub, request);
  add_jobs(*sub, request);
  sub->add_flag("--every-tuning", request.every_tuning, "the strategies' whole spaces");

  sub = add("explain", "Which strategy and tuning a problem gets, why, and from which cache.",
            kExplainExamples, explain);
  add_archs(*sub, request, kOneAbsent);
  add_configuration(*sub, request);

  sub =
      add("tune", "Measures what may serve a problem, and records the best.", kTuneExamples, tune);
  add_configuration(*sub, request);
  sub->get_option("--tuning")
      ->description(
          "hold these tunables, \"chunk=32 shards=2\": one value each; all values of others are "
          "tried");
  sub->add_option("--method", request.method,
                  "halving: a shortlist, ever fewer of it, then steps from the best; exhaustive: "
                  "all; random: --max-evals by lot; local: steps of one tunable from the default")
      ->capture_default_str()
      ->check(CLI::IsMember({"halving", "exhaustive", "random", "local"}));
  sub->add_option("--time", request.seconds, "seconds for all problems together; 0: no limit")
      ->check(cli::number(0, cli::kMostSeconds));
  sub->add_option("--max-evals", request.max_evals,
                  "measurements a problem, before the finals; 0: no limit")
      ->check(cli::whole(0, cli::kMostMeasurements));
  sub->add_option("--seed", request.seed, "of the inputs and of --method random")
      ->capture_default_str()
      ->check(cli::whole(0, cli::kMostSeed));
  sub->add_flag("--resume,!--fresh", request.resume,
                "go on with the journal of a stopped search; --fresh (the default): begin anew");
  CLI::Option* device =
      sub->add_option("--device", request.device, "CUDA ordinal; default: every visible device")
          ->check(cli::whole(0, cli::kMostDevices - 1));
  sub->add_option("--plot", request.plot, "a page of plots, self-contained")
      ->type_name("FILE|-")
      ->check(cli::file_name("searches.html"));
  sub->add_option("--slice", request.slice)->group("");
  sub->add_option("--processes", request.processes)->group("");
  sub->add_option("--devices", request.devices, "CUDA ordinals to measure on at once: 0,1,2,3")
      ->delimiter(',')
      ->check(cli::whole(0, cli::kMostDevices - 1))
      ->allow_extra_args(false)
      ->excludes(device);
  sub->add_option("--wisdom-dir", request.wisdom_dir, "measurements; default: as the library")
      ->type_name("DIR")
      ->check(cli::directory_name());

  sub = add("worker", "", "", worker);
  sub->group("");
  sub->add_option("--device", request.device);
  sub->add_option("--cache-dir", request.cache_dir);

  sub = add("dump", "The source, PTX, SASS or resources of a problem's kernels.", kDumpExamples,
            dump);
  add_archs(*sub, request, kOneAbsent);
  add_configuration(*sub, request);
  sub->add_option("--stage", request.stage, "only this kernel of the recipe");
  sub->add_flag("--src", request.source, "the composed source and its templates (the default)");
  sub->add_flag("--ptx", request.ptx, "what NVRTC makes of it");
  sub->add_flag("--sass", request.sass, "the machine code, where a disassembler is installed");
  sub->add_flag("--resources", request.resources, "registers, spills, shared memory");

  add_wisdom_commands(app, request, chosen);
  add_cache_commands(app, request, chosen);
  app.add_subcommand("bench", "kda-bench: kda-tune bench --help shows its own words.");
  add_shell_commands(app, request);

  if (argc > 1 && std::string_view(argv[1]) == "bench") {
    return bench::main_of_bench(argc - 1, argv + 1, out, err);
  }
  return cli::run(app, argc, argv, out, err, [&] {
    cli::check_writable(request.output.file);  // before minutes of work
    return run_shell_command(app, request) ? cli::kOk : chosen(request);
  });
}

}  // namespace kda::tune_tool
