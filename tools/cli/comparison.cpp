#include "cli/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "tune/json.hpp"

namespace kda::cli {
namespace {

constexpr const char* kNames[] = {"SAME", "FAST", "SLOW", "AMBG", "BROKE", "MENDED", "GONE", "NEW"};
// One of these makes a row a result: times, or why kda-bench or kda-tune has none.
constexpr const char* kSaysHowItWent[] = {"gpu_us", "time_us", "status", "failed"};
// Two runs this noisy cannot be called the same.
constexpr double kTooNoisy = 0.05;

std::string text_in(const Json& row, const char* name) {
  const auto at = row.find(name);
  return at != row.end() && at->is_string() ? at->get<std::string>() : "";
}

// gpu_us of kda-bench, time_us of kda-tune and wisdom.
std::optional<measure::Summary> time_in(const Json& row) {
  for (const char* name : {"gpu_us", "time_us"}) {
    const auto at = row.find(name);
    if (at == row.end() || !at->is_object()) continue;
    const auto number = [&](const char* part, double fallback) {
      const auto found = at->find(part);
      return found != at->end() && found->is_number() ? found->get<double>() : fallback;
    };
    const double median = number("median", 0);
    if (!(median > 0)) return std::nullopt;
    return measure::Summary{static_cast<std::size_t>(std::max(number("n", 0), 0.0)), median,
                            number("iqr", 0), number("min", median)};
  }
  return std::nullopt;
}

bool is_result(const Json& row) {
  return row.is_object() && (row.contains("problem") || row.contains("words")) &&
         std::any_of(std::begin(kSaysHowItWent), std::end(kSaysHowItWent),
                     [&](const char* name) { return row.contains(name); });
}

std::string device_of(const Json& row) {
  const auto environment = row.find("environment");
  const bool record = environment != row.end() && environment->is_object();
  return text_in(record ? *environment : row, "device");
}

bool names_several_devices(const Json& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Json& row) { return device_of(row) != device_of(rows.front()); });
}

// What both runs were asked: the problem by its words where the row has them.
std::string variant_of(const Json& row) {
  std::string text = text_in(row, "wanted_strategy");
  const std::string tuning = text_in(row, "wanted_tuning");
  if (!tuning.empty()) text += (text.empty() ? "" : " ") + tuning;
  return text;
}

std::string question_of(const Json& row) {
  const std::string words = text_in(row, "words");
  return (words.empty() ? text_in(row, "problem") : words) + "|" +
         row.value("cu_seqlens", Json()).dump() + "|" + row.value("lengths", Json()).dump() + "|" +
         text_in(row, "regime") + "|" + variant_of(row);
}

// Rows by question, in the file's order; a question asked twice is told apart by its number.
// apart: so are devices.
std::vector<std::pair<std::string, const Json*>> by_question(const Json& rows, bool apart) {
  std::map<std::string, int> seen;
  std::vector<std::pair<std::string, const Json*>> all;
  for (const Json& row : rows) {
    const std::string question = question_of(row) + (apart ? "|" + device_of(row) : "");
    all.emplace_back(fmt::format("{}#{}", question, ++seen[question]), &row);
  }
  return all;
}

std::string choice_of(const Json& row) {
  const std::string strategy = text_in(row, "strategy");
  const std::string tuning = text_in(row, "tuning");
  return tuning.empty() ? strategy : strategy + " " + tuning;
}

// Either may lack its partner: an empty object.
Json row_of(const Json& first, const Json& second, double threshold) {
  const Json& named = first.empty() ? second : first;
  Json row = {{"problem", text_in(named, "problem")},
              {"regime", text_in(named, "regime")},
              {"variant", variant_of(named)}};
  for (const char* name : {"regime", "variant"}) {
    if (text_in(row, name).empty()) row.erase(name);
  }
  const auto a = first.empty() ? std::nullopt : time_in(first);
  const auto b = second.empty() ? std::nullopt : time_in(second);
  if (a) row["first_us"] = a->median;
  if (b) row["second_us"] = b->median;
  Verdict verdict = Verdict::same;
  if (second.empty()) {
    verdict = Verdict::gone;
  } else if (first.empty()) {
    verdict = Verdict::added;
  } else if (a && b) {
    const Judged judged = judge(*a, *b, threshold);
    verdict = judged.verdict;
    row["change_percent"] = 100 * judged.change;
    row["noise_percent"] = 100 * judged.noise;
    if (choice_of(first) != choice_of(second)) {
      row["note"] = fmt::format("{}, was {}", choice_of(second), choice_of(first));
    }
  } else if (a || b) {
    verdict = a ? Verdict::broke : Verdict::mended;
    const Json& wrong = a ? second : first;
    row["note"] = text_in(wrong, wrong.contains("status") ? "status" : "failed");
  } else {
    row["note"] = "timed in neither";
  }
  row["verdict"] = name_of(verdict);
  return row;
}

Json summary_of(const Json& rows) {
  Json summary = {{"rows", rows.size()}};
  double logs = 0;
  int timed = 0;
  std::map<std::string, int> counts;
  for (const Json& row : rows) {
    ++counts[text_in(row, "verdict")];
    if (!row.contains("change_percent")) continue;
    logs += std::log1p(row["change_percent"].get<double>() / 100);
    ++timed;
  }
  for (const char* name : kNames) {
    if (counts[name] > 0) summary[base::lower(name)] = counts[name];
  }
  if (timed > 0) summary["second_over_first"] = std::exp(logs / timed);
  return summary;
}

}  // namespace

const char* name_of(Verdict verdict) noexcept { return kNames[static_cast<std::size_t>(verdict)]; }

Judged judge(const measure::Summary& first, const measure::Summary& second, double threshold) {
  Judged judged{Verdict::same, second.median / first.median - 1,
                std::hypot(first.noise(), second.noise())};
  const double apart = std::abs(judged.change);
  if (apart <= threshold) {
    if (judged.noise > std::max(threshold, kTooNoisy)) judged.verdict = Verdict::ambg;
  } else if (apart <= judged.noise) {
    judged.verdict = Verdict::ambg;
  } else {
    judged.verdict = judged.change < 0 ? Verdict::fast : Verdict::slow;
  }
  return judged;
}

Result<Json> read_results(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    const std::string why = base::file::describe(errno != 0 ? errno : EIO);
    return Status(Code::invalid_argument, fmt::format("{} cannot be read: {}", path, why));
  }
  Json found = Json::array();
  const auto add = [&](const Json& rows) {
    for (const Json& row : rows) {
      if (is_result(row)) found.push_back(row);
    }
  };
  const std::string all = text.str();
  const Json whole = tune::parse_json(all);
  if (whole.is_array()) {
    add(whole);
  } else if (is_result(whole)) {
    found.push_back(whole);
  } else if (whole.is_object()) {
    for (const auto& [section, rows] : whole.items()) {
      if (rows.is_array()) add(rows);
    }
  } else {
    for (const std::string_view line : base::split(all, '\n')) {
      const Json row = tune::parse_json(line);
      if (is_result(row)) found.push_back(row);
    }
  }
  if (!found.empty()) return found;
  return Status(Code::invalid_argument,
                fmt::format("{} holds no results; kda-bench --json, kda-tune tune -o json or "
                            "kda-tune wisdom export write some",
                            path));
}

Json compare(const Json& first, const Json& second, double threshold) {
  // One device may be compared with another, but not what several devices took among themselves.
  const bool apart = names_several_devices(first) || names_several_devices(second);
  const auto before = by_question(first, apart);
  std::map<std::string, const Json*> after;
  const auto questions = by_question(second, apart);
  for (const auto& [question, row] : questions) after[question] = row;
  const Json none = Json::object();
  Json rows = Json::array();
  for (const auto& [question, row] : before) {
    const auto found = after.find(question);
    rows.push_back(row_of(*row, found == after.end() ? none : *found->second, threshold));
    if (found != after.end()) after.erase(found);
  }
  for (const auto& [question, row] : questions) {
    if (after.contains(question)) rows.push_back(row_of(none, *row, threshold));
  }
  Json summary = Json::array({summary_of(rows)});
  return {{"compared", std::move(rows)}, {"summary", std::move(summary)}};
}

}  // namespace kda::cli
