#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <sstream>
#include <vector>

#include "base/env.hpp"
#include "cli/failure.hpp"
#include "cli/tell.hpp"

namespace kda::cli {
namespace {

// What decides which kernels run, and how they are launched, besides the words.
constexpr const char* kDeciding[] = {"KDA_WISDOM_DIR", "KDA_WISDOM_PATH", "KDA_TUNE",
                                     "KDA_KEEP_GRAPHS", "NVRTC_APPEND_FLAGS"};

std::string quoted(const std::string& word) {
  const bool plain =
      !word.empty() && word.find_first_of(" \t\n\"'\\$&|;<>()*?`") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_line(int argc, const char* const* argv) {
  std::string text;
  for (const char* const name : kDeciding) {
    const std::string value = base::env::get(name);
    if (!value.empty()) text += fmt::format("{}={} ", name, quoted(value));
  }
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    // The folder a tool was started from says nothing about its results.
    text += i == 0 ? word.substr(word.find_last_of('/') + 1) : " " + quoted(word);
  }
  return text;
}

int run(CLI::App& app, int argc, const char* const* argv, std::FILE* out, std::FILE* err,
        const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::RequiredError& error) {
    // What is missing may only be misspelt.
    const std::vector<std::string> unknown = app.remaining(true);
    const std::string sentence =
        unknown.empty() ? error.what()
                        : fmt::format("there is no subcommand or option \"{}\"", unknown.front());
    tell(err, fmt::format("{}: {}; --help shows what there is\n", app.get_name(), sentence));
    return kBadCommand;
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, complaint;
    const int code = app.exit(error, help, complaint);
    tell(out, help.str());
    tell(err, complaint.str());
    if (code != 0) return kBadCommand;
    return std::fflush(out) == 0 && std::ferror(out) == 0 ? kOk : kFailed;
  } catch (const Failure& failure) {
    tell(err, fmt::format("{}: {}\n", app.get_name(), failure.what()));
    return failure.code;
  } catch (const std::exception& error) {
    tell(err, fmt::format("{}: {}\n", app.get_name(), error.what()));
    return kFailed;
  }
}

}  // namespace kda::cli
