// What kda-tune doctor looked at, and how it found it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/rows.hpp"
#include "tune/request.hpp"

namespace kda::tune_tool {

class Checks {
 public:
  // state: ok; none (a machine may do without); bad.
  void add(const char* check, std::string_view state, const std::string& found) {
    rows_.push_back({{"check", check}, {"state", state}, {"found", found}});
    if (state == "bad") healthy_ = false;
  }
  const cli::Json& rows() const { return rows_; }
  bool healthy() const { return healthy_; }

 private:
  cli::Json rows_ = cli::Json::array();
  bool healthy_ = true;
};

// The places that KDA_CACHE_PATH names.
void check_cache_path(Checks& checks);
// The directory of the measurements, and the places that KDA_WISDOM_PATH names.
void check_wisdom(Checks& checks);

// Of doctor --kernels: each strategy on each device, as rows; whether all are right goes to checks.
// Throws Failure where a strategy that was asked for does not exist.
cli::Json check_kernels(const Request& request, Checks& checks);

}  // namespace kda::tune_tool
