#include "cli/synopsis.hpp"

#include <CLI/CLI.hpp>

#include "base/text.hpp"

namespace kda::cli {
namespace {

// Of "TEXT:{a,b}" the choices.
std::vector<std::string> choices_in(const std::string& type) {
  std::vector<std::string> choices;
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return choices;
  const std::string_view inside = std::string_view(type).substr(begin + 1, end - begin - 1);
  for (const std::string_view item : base::split(inside, ',')) {
    choices.emplace_back(item);
  }
  return choices;
}

// Of "TEXT:{a,b}" and "INT:NONNEGATIVE" the first part.
std::string value_in(const std::string& type) {
  return type.substr(0, std::min(type.find(':'), type.find(" in ")));
}

Argument argument_of(const CLI::Option& option) {
  Argument argument;
  argument.positional = !option.nonpositional();
  if (argument.positional) {
    argument.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  }
  const std::string type = option.get_type_name();
  argument.choices = choices_in(type);
  if (option.get_expected_max() > 0 && option.get_items_expected_max() > 0) {
    argument.value = value_in(type);
  }
  argument.about = option.get_description();
  argument.fallback = option.get_default_str();
  argument.many = option.get_items_expected_max() > 1;
  return argument;
}

Synopsis synopsis_of(const CLI::App& app, const std::string& before) {
  Synopsis synopsis;
  synopsis.name = before.empty() ? app.get_name() : before + " " + app.get_name();
  synopsis.about = app.get_description();
  synopsis.more = base::trim(app.get_footer());
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (!option->get_group().empty()) synopsis.arguments.push_back(argument_of(*option));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) synopsis.commands.push_back(synopsis_of(*sub, synopsis.name));
  }
  return synopsis;
}

}  // namespace

Synopsis synopsis_of(const CLI::App& app) { return synopsis_of(app, ""); }

std::string usage_of(const Synopsis& synopsis) {
  std::string usage = synopsis.name;
  bool options = false;
  for (const Argument& each : synopsis.arguments) options = options || !each.positional;
  if (options) usage += " [OPTIONS]";
  for (const Argument& each : synopsis.arguments) {
    if (each.positional) usage += " [" + each.value + (each.many ? "...]" : "]");
  }
  if (!synopsis.commands.empty()) usage += " COMMAND";
  return usage;
}

}  // namespace kda::cli
