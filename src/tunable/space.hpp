// A strategy's tunables as named integers: print, parse, check, enumerate.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/tunable.h"
#include "kda/status.hpp"

namespace kda::tunable {

// Named values in the order of the strategy's rows: what wisdom, Options::tuning and people read.
using Values = std::vector<std::pair<std::string, int>>;

struct Row {
  std::string name;
  std::vector<int> values;  // worth trying, increasing
  std::string meaning;
  int initial;  // what words mean that do not name it (abi/tunable.h)
};
using Space = std::vector<Row>;

std::string to_text(const Values& values);  // "chunk=32 shards=2"

// Overwrites the named tunables of tuning.  Fails with invalid_argument on an unknown name or a
// value that is not an integer; values outside the row's list are refused too, naming the list.
Result<Values> parse(std::string_view text, const Space& space, Values tuning);

// Every combination of the rows' values.
std::vector<Values> enumerate(const Space& space);

template <class Tuning, std::size_t N>
Space space_of(const abi::Tunable<Tuning> (&rows)[N]) {
  static_assert(sizeof(Tuning) == N * sizeof(int), "a Tuning field has no row, or a row no field");
  Space space;
  for (const auto& row : rows) {
    Row out{row.name, {}, row.meaning, Tuning{}.*row.field};
    for (int value : row.values) {
      if (value == 0) break;
      out.values.push_back(value);
    }
    space.push_back(std::move(out));
  }
  return space;
}

template <class Tuning, std::size_t N>
Values values_of(const Tuning& tuning, const abi::Tunable<Tuning> (&rows)[N]) {
  Values values;
  for (const auto& row : rows) values.emplace_back(row.name, tuning.*row.field);
  return values;
}

template <class Tuning, std::size_t N>
Tuning tuning_of(const Values& values, const abi::Tunable<Tuning> (&rows)[N]) {
  Tuning tuning;
  // As many as there are, in the rows' order; what is newer than a list keeps its initial value.
  for (std::size_t i = 0; i < N && i < values.size(); ++i) {
    tuning.*rows[i].field = values[i].second;
  }
  return tuning;
}

}  // namespace kda::tunable
