#include "cli/cases.hpp"

#include <nlohmann/json.hpp>

#include "problem/problem.hpp"
#include "reference/cases.hpp"

namespace kda::cli {
namespace {

constexpr Column kCaseColumns[] = {
    {"case", "case"},
    {"T", "T"},
    {"H", "H"},
    {"HV", "HV"},
    {"N", "N"},
    {"floor_us", "floor us", 0},
    {"fla_us", "FLA us", 0},
    {"flash_kda_us", "FlashKDA us", 0},
    {"cula_us", "cuLA us", 0},
    {"bar_us", "bar us", 0},
    {"goal_us", "goal us", 0},
};

Json known(double number) { return number > 0 ? Json(number) : Json(nullptr); }

}  // namespace

Json case_rows() {
  Json rows = Json::array();
  for (const reference::Case& row : reference::cases()) {
    rows.push_back({{"case", row.name},
                    {"T", row.tokens},
                    {"H", row.heads},
                    {"HV", row.value_heads},
                    {"N", row.sequences},
                    {"floor_us", row.floor},
                    {"fla_us", known(row.fla)},
                    {"flash_kda_us", known(row.flash_kda)},
                    {"cula_us", known(row.cula)},
                    {"bar_us", known(row.bar)},
                    {"goal_us", known(row.goal)},
                    {"words", problem::to_text(reference::problem_of(row))},
                    {"cu_seqlens", reference::cu_seqlens_of(row)}});
  }
  return rows;
}

std::span<const Column> case_columns() { return kCaseColumns; }

}  // namespace kda::cli
