// The command lines of kda-tune cache and kda-tune bundle.
#include <CLI/CLI.hpp>

#include "cli/limits.hpp"
#include "tune/arguments.hpp"
#include "tune/commands.hpp"

namespace kda::tune_tool {
namespace {

constexpr const char* kCacheExamples =
    "Examples:\n"
    "  kda-tune cache stats                 how much, of what, and what was set aside\n"
    "  kda-tune cache ls -o csv             a row an entry\n"
    "  kda-tune cache show 3f2a             the entry whose key begins so\n"
    "  kda-tune cache verify --remove       damaged entries away (a run would rebuild them)\n"
    "  kda-tune cache gc --max-size 200M    down to so much, what was used longest ago first\n"
    "  rm -r \"$(kda-tune cache path)\"       everything, measurements too\n"
    "It is the cache that the library would use: KDA_CACHE_DIR, else $XDG_CACHE_HOME/kda, else\n"
    "~/.cache/kda.\n"
    "\nExit codes of verify: 0 every entry is whole; 1 some are damaged or cannot be read.\n";

constexpr const char* kBundleExamples =
    "Examples:\n"
    "  kda-tune bundle create kernels.kdab h64 h16 --arch sm_90a,sm_100a    needs no GPU\n"
    "  kda-tune bundle create kernels.kdab h64 --arch h200  for this device alone\n"
    "  kda-tune bundle create kernels.kdab --from-cache     what this machine's cache holds\n"
    "  kda-tune bundle ls kernels.kdab\n"
    "  KDA_CACHE_PATH=kernels.kdab KDA_JIT=off app          runs without a compiler\n"
    "For a bare target (sm_90a) it holds what each device of it that kda-tune list names gets;\n"
    "for a device (h200) what that one gets.\n"
    "In CMake, kda_link_bundle(app kernels.kdab) puts it into a program.\n"
    "\nExit codes of create --from-cache: 0 all that was asked for is in it; 1 some was damaged.\n";

CLI::App* add_group(CLI::App& app, const char* name, const char* about, const char* examples) {
  CLI::App* group = app.add_subcommand(name, about);
  group->footer(std::string("\n") + examples);
  group->require_subcommand(1);
  return group;
}

}  // namespace

void add_cache_commands(CLI::App& app, Request& request, Command& chosen) {
  CLI::App* cache =
      add_group(app, "cache", "The cache of compiled kernels: look into it, check it, make room.",
                kCacheExamples);
  const auto add = [&](CLI::App* group, const char* name, const char* about, const char* examples,
                       Command command) {
    return add_command(*group, name, about, examples, request, command, chosen);
  };
  const auto add_cache = [&](const char* name, const char* about, Command command) {
    CLI::App* sub = add(cache, name, about, kCacheExamples, command);
    sub->add_option("--cache-dir", request.cache_dir, "another cache than the library's")
        ->check(cli::directory_name());
    return sub;
  };
  add_cache("path", "Prints its directory and nothing else.", cache_path);
  add_cache("stats", "How much it holds, for which devices, and where else kernels are found.",
            cache_stats);
  CLI::App* sub = add_cache("ls", "Its entries, the last used first.", cache_ls);
  sub->add_option("--arch", request.archs, "only for these devices or targets: sm_89,h200")
      ->type_name("TARGET")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub = add_cache("show", "All that one entry says of itself.", cache_show);
  sub->add_option("key", request.key, "the first digits of its key")->required();
  sub = add_cache("verify", "Reads every entry and checks it whole.", cache_verify);
  sub->add_flag("--remove", request.remove, "take damaged ones away");
  sub = add_cache("gc", "Removes what was used longest ago, down to the limit.", cache_gc);
  sub->add_option("--max-size", request.max_size, "200M, 1G; default: KDA_CACHE_MAX_SIZE")
      ->check(cli::size_words());
  add_cache("clear", "Removes every compiled kernel; measurements stay.", cache_clear);

  CLI::App* bundle =
      add_group(app, "bundle", "Kernels in one file, for machines without a compiler or a cache.",
                kBundleExamples);
  const auto add_bundle = [&](const char* name, const char* about, Command command) {
    CLI::App* made = add(bundle, name, about, kBundleExamples, command);
    made->add_option("file", request.bundle_file, "the bundle")
        ->required()
        ->check(cli::file_name("kernels.kdab"));
    return made;
  };
  sub = add_bundle("create", "Compiles the problems' kernels and writes them.", bundle_create);
  add_archs(*sub, request, kSeveralAbsent);
  add_configuration(*sub, request);
  sub->add_flag("--every-tuning", request.every_tuning, "the strategies' whole spaces");
  add_jobs(*sub, request);
  sub->add_flag("--from-cache", request.from_cache,
                "what the cache holds, for --arch or all, and nothing else");
  add_bundle("ls", "Its entries.", bundle_ls);
  add_bundle("verify", "Checks its index and every entry.", bundle_verify);
}

}  // namespace kda::tune_tool
