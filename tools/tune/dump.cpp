#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/failure.hpp"
#include "cli/text_file.hpp"
#include "compose/source.hpp"
#include "tune/arguments.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/disassembler.hpp"
#include "tune/needs.hpp"

namespace kda::tune_tool {
namespace {

using cli::Json;
using cli::must;

// One stage with all that was asked about it.
struct Dumped {
  std::string name;
  Json row;          // for the formats that are not text
  std::string text;  // for people
};

void add_part(Dumped& dumped, const char* name, const char* comment, const std::string& part) {
  dumped.row[name] = part;
  dumped.text += fmt::format("{} {} of {}\n{}", comment, name, dumped.name, part);
  if (!part.ends_with('\n')) dumped.text += '\n';
}

class Dumper {
 public:
  Dumper(const Request& request, const Target& target)
      : request_(request), target_(target), cache_(cache::shared_cache(request.cache_dir)) {
    target_.device.ordinal = -1;  // nothing is loaded
  }

  Dumped dump(const compose::Recipe& recipe, std::size_t i) {
    const compose::Stage& stage = recipe.stages[i];
    const program::Unit unit = must(program::unit_at_hand(stage, target_.device));
    Dumped dumped{.name = fmt::format("stage {}, {}, {} with {}", stage.name, unit.job.target,
                                      recipe.strategy, tunable::to_text(recipe.tuning)),
                  .row = kernel_row(stage, unit, nullptr),
                  .text = {}};
    dumped.row["strategy"] = recipe.strategy;
    dumped.row["tuning"] = tunable::to_text(recipe.tuning);
    const bool nothing = !request_.ptx && !request_.sass && !request_.resources;
    if (request_.source || nothing) add_source(unit, dumped);
    if (request_.ptx) {
      add_part(dumped, "ptx", "//", must(compile::compile_to_ptx(unit.job, program::headers())));
    }
    if (request_.sass || request_.resources) add_compiled(recipe, i, dumped);
    return dumped;
  }

 private:
  static void add_source(const program::Unit& unit, Dumped& dumped) {
    add_part(dumped, "source", "//", unit.job.source);
    dumped.row["templates"] = compose::templates_of(unit.path);
    dumped.text += "// templates it includes:\n";
    for (const std::string_view path : compose::templates_of(unit.path)) {
      dumped.text += fmt::format("//   {}\n", path);
    }
  }

  void add_compiled(const compose::Recipe& recipe, std::size_t i, Dumped& dumped) {
    compose::Recipe one = recipe;
    one.stages = {recipe.stages[i]};
    const program::Program program = must(program::build(std::move(one), target_.device, *cache_));
    // Another than the first where that spills.
    const compose::Stage& stage = program.kernels.front().stage;
    const program::Unit unit = must(program::unit_at_hand(stage, target_.device));
    const cache::Found entry = must(look_up(unit, *cache_));
    const cache::Found found{entry.entry, program.kernels.front().origin};
    dumped.row.update(kernel_row(stage, unit, &found));
    if (request_.resources && !request_.sass && !request_.ptx && !request_.source) return;
    if (request_.resources) {
      dumped.text += "// " + found.entry->target + ": ";
      dumped.text +=
          fmt::format("{} registers, {} bytes spilled, {} bytes of shared memory\n",
                      found.entry->resources.registers, found.entry->resources.spill_bytes,
                      dumped.row["shared_bytes"].get<std::size_t>());
    }
    if (request_.sass) {
      add_part(dumped, "sass", "//", must(disassemble(found.entry->cubin)));
    }
  }

  const Request& request_;
  Target target_;
  std::shared_ptr<cache::Cache> cache_;
};

void check_stage(const compose::Recipe& recipe, const std::string& wanted) {
  std::string names;
  for (const compose::Stage& stage : recipe.stages) {
    if (wanted.empty() || stage.name == wanted) return;
    names += (names.empty() ? "" : ", ") + stage.name;
  }
  throw cli::Failure(cli::kBadCommand, fmt::format("{} has no stage \"{}\"; it has {}",
                                                   recipe.strategy, wanted, names));
}

}  // namespace

int dump(const Request& request) {
  const cli::Subject subject = problem_of(request);
  const kda::Options options = choice_of(request);
  Json rows = Json::array();
  std::string text;
  for (const Target& target : targets_of(request, kOneAbsent)) {
    const plan::Choice choice = must(choose(subject, target, options));
    check_stage(choice.recipe, request.stage);
    Dumper dumper(request, target);
    for (std::size_t i = 0; i < choice.recipe.stages.size(); ++i) {
      if (!request.stage.empty() && choice.recipe.stages[i].name != request.stage) continue;
      const Dumped dumped = dumper.dump(choice.recipe, i);
      rows.push_back(dumped.row);
      text += (text.empty() ? "" : "\n") + dumped.text;
    }
  }
  const bool markdown = request.output.format == "md";
  if ((request.output.format == "table" || markdown) && !text.empty()) {
    if (markdown) text = "```\n" + text + "```\n";
    cli::write_text(request.output.file, text, request.output.out);
    return cli::kOk;
  }
  cli::Document document(request.output);
  document.add("kernels", rows, kernel_columns());
  document.print();
  return cli::kOk;
}

}  // namespace kda::tune_tool
