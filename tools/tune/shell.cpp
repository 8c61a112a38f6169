#include "tune/shell.hpp"

#include <CLI/CLI.hpp>

#include "cli/completion.hpp"
#include "cli/failure.hpp"
#include "cli/manual.hpp"
#include "cli/presets.hpp"
#include "cli/text_file.hpp"
#include "device/device.hpp"
#include "reference/cases.hpp"
#include "strategy/table.hpp"

namespace kda::tune_tool {
namespace {

constexpr const char* kManualExamples =
    "Examples:\n"
    "  kda-tune manual | man -l -\n"
    "  kda-tune manual > ~/.local/share/man/man1/kda-tune.1\n";

constexpr const char* kCompletionExamples =
    "Examples:\n"
    "  source <(kda-tune completion bash)       in ~/.bashrc\n"
    "  kda-tune completion zsh > \"${fpath[1]}/_kda-tune\"\n"
    "  kda-tune completion fish > ~/.config/fish/completions/kda-tune.fish\n";

cli::Vocabulary vocabulary() {
  cli::Vocabulary words;
  for (const reference::Case& row : reference::cases()) words["CASE|WORDS"].emplace_back(row.name);
  for (const cli::Preset& row : cli::presets()) words["CASE|WORDS"].emplace_back(row.name);
  for (const strategy::Strategy* each : strategy::table()) {
    words["STRATEGY"].emplace_back(each->name);
  }
  words["TARGET"] = device::known_names();
  return words;
}

}  // namespace

void add_shell_commands(CLI::App& app, Request& request) {
  CLI::App* sub = app.add_subcommand("manual", "Prints the man page.");
  sub->footer(std::string("\n") + kManualExamples);
  sub = app.add_subcommand("completion", "Prints the completion of a shell, to be sourced.");
  sub->footer(std::string("\n") + kCompletionExamples);
  sub->add_option("shell", request.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

bool run_shell_command(const CLI::App& app, const Request& request) {
  std::string text;
  if (app.got_subcommand("manual")) {
    text = cli::manual(cli::synopsis_of(app));
  } else if (app.got_subcommand("completion")) {
    text = cli::must(cli::completion(cli::synopsis_of(app), request.shell, vocabulary()));
  } else {
    return false;
  }
  cli::write_text("-", text, request.output.out);
  return true;
}

}  // namespace kda::tune_tool
