// kda-tune compare: what got faster between two runs, what slower.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.hpp"
#include "cli/comparison.hpp"
#include "cli/failure.hpp"
#include "cli/text_file.hpp"
#include "tune/commands.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;

constexpr Column kCompared[] = {{"problem", "problem"},
                                {"regime", "gate"},
                                {"variant", "variant"},
                                {"first_us", "first us", 1},
                                {"second_us", "second us", 1},
                                {"change_percent", "change %", 1},
                                {"noise_percent", "noise %", 1},
                                {"verdict", "verdict"},
                                {"note", "note"}};
constexpr Column kSummary[] = {{"rows", "rows"},      {"same", "same"},
                               {"fast", "fast"},      {"slow", "slow"},
                               {"ambg", "ambiguous"}, {"broke", "broke"},
                               {"mended", "mended"},  {"gone", "gone"},
                               {"new", "new"},        {"second_over_first", "second / first", 3}};

// What it says would be written over the results that it is of.
void check_results_stay(const Request& request) {
  if (cli::is_stdout(request.output.file)) return;
  for (const std::string& file : request.files) {
    if (!cli::is_same_file(request.output.file, file)) continue;
    throw cli::Failure(cli::kBadCommand,
                       fmt::format("--output {} is one of the files compared, which the comparison "
                                   "would replace; name another file",
                                   request.output.file));
  }
}

}  // namespace

int compare(const Request& request) {
  check_results_stay(request);
  const Json first = must(cli::read_results(request.files.at(0)));
  const Json second = must(cli::read_results(request.files.at(1)));
  const Json result = cli::compare(first, second, request.threshold_percent / 100);
  cli::Document document(request.output);
  document.add("compared", result["compared"], kCompared);
  document.add("summary", result["summary"], kSummary);
  document.print();
  const bool fails =
      std::any_of(request.fail_on.begin(), request.fail_on.end(), [&](const std::string& verdict) {
        return result["summary"][0].contains(base::lower(verdict));
      });
  return fails ? cli::kFailed : cli::kOk;
}

}  // namespace kda::tune_tool
