#include "cli/completion.hpp"

#include <fmt/format.h>

#include <functional>

#include "base/text.hpp"

namespace kda::cli {
namespace {

enum class Kind { words, file, directory };

struct Values {
  Kind kind = Kind::words;
  std::vector<std::string> words;
};

Values values_of(const Argument& argument, const Vocabulary& vocabulary) {
  if (!argument.choices.empty()) return {Kind::words, argument.choices};
  if (argument.value.starts_with("FILE")) return {Kind::file, {}};
  if (argument.value.starts_with("DIR")) return {Kind::directory, {}};
  const auto found = vocabulary.find(argument.value);
  return {Kind::words, found == vocabulary.end() ? std::vector<std::string>{} : found->second};
}

// Where a command line stands: its subcommands, each with a blank before; " wisdom ls".
std::string place_of(const Synopsis& synopsis) {
  return synopsis.name.substr(std::min(synopsis.name.find(' '), synopsis.name.size()));
}

void each_command(const Synopsis& synopsis, const std::function<void(const Synopsis&)>& visit) {
  visit(synopsis);
  for (const Synopsis& each : synopsis.commands) each_command(each, visit);
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::string function_of(const Synopsis& synopsis) {
  std::string name = "_" + synopsis.name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

std::string first_sentence(const std::string& about) { return about.substr(0, about.find('\n')); }

std::string in_quotes(const std::string& text, std::string_view escape = "'\\''") {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string(escape) : std::string(1, c);
  return quoted + "'";
}

// "' doctor' | ' wisdom ls'": every place, as patterns of a case.
std::string places(const Synopsis& synopsis, std::string_view between) {
  std::string text;
  each_command(synopsis, [&](const Synopsis& each) {
    if (place_of(each).empty()) return;
    text += fmt::format("{}'{}'", text.empty() ? "" : between, place_of(each));
  });
  return text;
}

// The arms of a case over "place:option" for options with values.
using Complete = std::function<std::string(const Values&)>;
std::string option_arms(const Synopsis& synopsis, const Vocabulary& vocabulary,
                        const Complete& complete) {
  std::string arms;
  each_command(synopsis, [&](const Synopsis& each) {
    for (const Argument& argument : each.arguments) {
      if (argument.positional || argument.value.empty()) continue;
      std::string patterns;
      for (const std::string& name : argument.names) {
        patterns += fmt::format("{}'{}:{}'", patterns.empty() ? "" : " | ", place_of(each), name);
      }
      arms += fmt::format("    {})\n      {}\n      return\n      ;;\n", patterns,
                          complete(values_of(argument, vocabulary)));
    }
  });
  return arms;
}

std::string bash(const Synopsis& synopsis, const Vocabulary& vocabulary) {
  const std::string arms = option_arms(synopsis, vocabulary, [](const Values& values) {
    if (values.kind == Kind::file) return std::string("compopt -o default; COMPREPLY=()");
    if (values.kind == Kind::directory) return std::string("compopt -o dirnames; COMPREPLY=()");
    return fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))",
                       in_quotes(base::join(values.words, " ")));
  });
  std::string lists;
  each_command(synopsis, [&](const Synopsis& each) {
    std::vector<std::string> words;
    bool files = false;
    for (const Argument& argument : each.arguments) {
      if (!argument.positional) {
        words.insert(words.end(), argument.names.begin(), argument.names.end());
        continue;
      }
      const Values values = values_of(argument, vocabulary);
      words.insert(words.end(), values.words.begin(), values.words.end());
      files = files || values.kind != Kind::words;
    }
    for (const Synopsis& sub : each.commands) words.push_back(last_word(sub.name));
    lists += fmt::format("    '{}') words={}{} ;;\n", place_of(each),
                         in_quotes(base::join(words, " ")), files ? "; compopt -o default" : "");
  });
  return fmt::format(R"(# bash completion of {0}; source it, or put it where bash-completion looks.
{1}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} place='' words='' i
  # --option=value comes as three words.
  if [[ $cur == '=' ]]; then cur=''; fi
  if [[ $prev == '=' ]]; then prev=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$place ${{COMP_WORDS[i]}}" in
      {2}) place="$place ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$place:$prev" in
{3}  esac
  case "$place" in
{4}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -F {1} {0}
)",
                     synopsis.name, function_of(synopsis), places(synopsis, " | "), arms, lists);
}

std::string zsh(const Synopsis& synopsis, const Vocabulary& vocabulary) {
  const auto described = [](const std::string& word, const std::string& about) {
    std::string safe;
    for (const char c : word) safe += c == ':' ? std::string("\\:") : std::string(1, c);
    return " " + in_quotes(about.empty() ? safe : safe + ":" + first_sentence(about));
  };
  const std::string arms = option_arms(synopsis, vocabulary, [](const Values& values) {
    if (values.kind == Kind::file) return std::string("_files");
    if (values.kind == Kind::directory) return std::string("_files -/");
    return "compadd -- " + base::join(values.words, " ");
  });
  std::string lists;
  each_command(synopsis, [&](const Synopsis& each) {
    std::string words;
    bool files = false;
    for (const Synopsis& sub : each.commands) words += described(last_word(sub.name), sub.about);
    for (const Argument& argument : each.arguments) {
      if (argument.positional) {
        const Values values = values_of(argument, vocabulary);
        for (const std::string& word : values.words) words += described(word, "");
        files = files || values.kind != Kind::words;
        continue;
      }
      for (const std::string& name : argument.names) words += described(name, argument.about);
    }
    lists +=
        fmt::format("    '{}') known=({} ){} ;;\n", place_of(each), words, files ? "; _files" : "");
  });
  return fmt::format(R"(#compdef {0}
# zsh completion of {0}; source it after compinit, or put it as _{0} into a folder of $fpath.
{1}() {{
  local place='' i
  local -a known
  for ((i = 2; i < CURRENT; ++i)); do
    case "$place ${{words[i]}}" in
      {2}) place="$place ${{words[i]}}" ;;
    esac
  done
  case "$place:${{words[CURRENT - 1]}}" in
{3}  esac
  case "$place" in
{4}  esac
  _describe {0} known
}}
if [[ ${{funcstack[1]}} == _{0} ]]; then {1} "$@"; else compdef {1} {0}; fi
)",
                     synopsis.name, function_of(synopsis), places(synopsis, " | "), arms, lists);
}

std::string fish(const Synopsis& synopsis, const Vocabulary& vocabulary) {
  const auto quoted = [](const std::string& text) { return in_quotes(text, "\\'"); };
  std::string lines;
  each_command(synopsis, [&](const Synopsis& each) {
    const std::string start = fmt::format("complete -c {} -n \"_{}_at '{}'\"", synopsis.name,
                                          function_of(synopsis), place_of(each));
    for (const Synopsis& sub : each.commands) {
      lines += fmt::format("{} -a {} -d {}\n", start, last_word(sub.name),
                           quoted(first_sentence(sub.about)));
    }
    for (const Argument& argument : each.arguments) {
      const Values values = values_of(argument, vocabulary);
      const std::string words =
          values.words.empty() ? "" : " -a " + quoted(base::join(values.words, " "));
      if (argument.positional) {
        if (values.kind != Kind::words) lines += start + " -F\n";
        if (!words.empty()) lines += start + words + "\n";
        continue;
      }
      std::string names;
      for (const std::string& name : argument.names) {
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      const char* takes = argument.value.empty()       ? ""
                          : values.kind == Kind::words ? " -x"
                                                       : " -r -F";
      lines += start + names + takes + words + " -d " + quoted(argument.about) + "\n";
    }
  });
  return fmt::format(
      R"(# fish completion of {0}; source it, or put it into ~/.config/fish/completions.
function _{1}_at
  set -l place ''
  set -l typed (commandline -opc)
  for word in $typed[2..-1]
    switch "$place $word"
      case {2}
        set place "$place $word"
    end
  end
  test "$place" = "$argv[1]"
end
complete -c {0} -f
{3})",
      synopsis.name, function_of(synopsis), places(synopsis, " "), lines);
}

}  // namespace

Result<std::string> completion(const Synopsis& synopsis, std::string_view shell,
                               const Vocabulary& vocabulary) {
  if (shell == "bash") return bash(synopsis, vocabulary);
  if (shell == "zsh") return zsh(synopsis, vocabulary);
  if (shell == "fish") return fish(synopsis, vocabulary);
  return Status(Code::invalid_argument,
                fmt::format("shell is \"{}\"; known are bash, zsh, fish", shell));
}

}  // namespace kda::cli
