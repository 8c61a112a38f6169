#include "cli/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/env.hpp"
#include "base/text.hpp"
#include "cli/build_info.hpp"

namespace kda::cli {
namespace {

// As text that roff leaves alone.
std::string roff(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const bool begins = safe.empty() || safe.back() == '\n';
    if (begins && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Indented lines and "Examples:" stay as they are, the others flow.
std::string paragraphs(const std::string& text) {
  std::string out;
  bool verbatim = false, open = false;
  const auto set = [&](bool wanted) {
    if (verbatim == wanted) return;
    verbatim = wanted;
    out += wanted ? ".PP\n.EX\n" : ".EE\n";
    open = false;
  };
  for (const std::string_view line : base::split(text, '\n')) {
    if (base::trim(line).empty()) {
      set(false);
      open = false;
      continue;
    }
    set(line.front() == ' ');
    if (!verbatim && !open) out += ".PP\n";
    open = true;
    out += roff(line) + "\n";
  }
  set(false);
  return out;
}

std::string argument_text(const Argument& argument) {
  std::string text = ".TP\n";
  std::string head;
  for (const std::string& name : argument.names) {
    head += (head.empty() ? "" : ", ") + fmt::format("\\fB{}\\fR", roff(name));
  }
  if (argument.positional) head = fmt::format("\\fI{}\\fR", roff(argument.value));
  if (!argument.positional && !argument.value.empty()) {
    head += fmt::format(" \\fI{}\\fR", roff(argument.value));
  }
  text += head + "\n" + roff(argument.about);
  if (!argument.choices.empty() &&
      argument.about.find(argument.choices.front()) == std::string::npos) {
    text += "\nOne of " + roff(base::join(argument.choices, ", ")) + ".";
  }
  if (!argument.fallback.empty()) text += "\nDefault: " + roff(argument.fallback) + ".";
  return text + "\n";
}

std::string arguments_text(const Synopsis& synopsis) {
  std::string text;
  for (const bool positional : {true, false}) {
    for (const Argument& each : synopsis.arguments) {
      const bool help = !each.names.empty() && each.names.back() == "--help";
      if (each.positional == positional && !help) text += argument_text(each);
    }
  }
  return text;
}

std::string command_text(const Synopsis& command) {
  // Without the program's own name.
  const std::string name = command.name.substr(command.name.find(' ') + 1);
  std::string text = fmt::format(".SS {}\n{}\n", roff(name), roff(command.about));
  text += fmt::format(".PP\n.B {}\n", roff(usage_of(command)));
  text += arguments_text(command);
  text += paragraphs(command.more);
  for (const Synopsis& each : command.commands) text += command_text(each);
  return text;
}

std::string environment_text() {
  std::string text = ".SH ENVIRONMENT\n";
  for (const base::env::Variable& row : base::env::table()) {
    text += fmt::format(".TP\n.B {}\n{}.\nDefault: {}.\n", roff(row.name), roff(row.meaning),
                        roff(row.fallback));
  }
  return text;
}

}  // namespace

std::string manual(const Synopsis& synopsis) {
  const std::string first = synopsis.about.substr(0, synopsis.about.find('\n'));
  std::string text = fmt::format(".TH {} 1 \"\" \"kda {}\" \"kda\"\n", roff(upper(synopsis.name)),
                                 roff(version()));
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(synopsis.name),
                      roff(first.ends_with('.') ? first.substr(0, first.size() - 1) : first));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n", roff(usage_of(synopsis)));
  text += ".SH DESCRIPTION\n" + roff(synopsis.about) + "\n";
  text += ".SH OPTIONS\n" + arguments_text(synopsis);
  if (!synopsis.commands.empty()) text += ".SH COMMANDS\n";
  for (const Synopsis& each : synopsis.commands) text += command_text(each);
  text += ".SH NOTES\n" + paragraphs(synopsis.more);
  return text + environment_text();
}

}  // namespace kda::cli
