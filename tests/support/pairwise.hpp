// Few rows that together hold every pair of values of every two factors.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace kda::test {

// A factor's values, each as words of a problem or tuning: {"K=64 V=64", "K=128 V=128"}.
using Factor = std::vector<std::string>;
using Row = std::vector<std::size_t>;  // a value a factor

// Greedy and deterministic: each row starts from a pair not met yet and takes, factor by factor,
// the value that meets most others.
inline std::vector<Row> pairwise(const std::vector<Factor>& factors) {
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  std::set<Pair> missing;  // (factor, value, later factor, value)
  for (std::size_t a = 0; a < factors.size(); ++a) {
    for (std::size_t b = a + 1; b < factors.size(); ++b) {
      for (std::size_t i = 0; i < factors[a].size(); ++i) {
        for (std::size_t j = 0; j < factors[b].size(); ++j) missing.insert({a, i, b, j});
      }
    }
  }
  const auto pair_of = [](std::size_t a, std::size_t i, std::size_t b, std::size_t j) {
    return a < b ? Pair{a, i, b, j} : Pair{b, j, a, i};
  };

  std::vector<Row> rows;
  while (!missing.empty()) {
    const auto [first, i, second, j] = *missing.begin();
    Row row(factors.size());
    std::vector<std::size_t> chosen{first, second};
    row[first] = i;
    row[second] = j;
    for (std::size_t factor = 0; factor < factors.size(); ++factor) {
      if (factor == first || factor == second) continue;
      std::size_t most = 0;
      // Ties go round the values, so that no value is met only once.
      const std::size_t start = rows.size() % factors[factor].size();
      row[factor] = start;
      for (std::size_t step = 0; step < factors[factor].size(); ++step) {
        const std::size_t value = (start + step) % factors[factor].size();
        std::size_t met = 0;
        for (const std::size_t other : chosen) {
          met += missing.count(pair_of(factor, value, other, row[other]));
        }
        if (met > most) {
          most = met;
          row[factor] = value;
        }
      }
      chosen.push_back(factor);
    }
    for (const std::size_t a : chosen) {
      for (const std::size_t b : chosen) {
        if (a < b) missing.erase({a, row[a], b, row[b]});
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// The row's words, one text.
inline std::string words_of(const std::vector<Factor>& factors, const Row& row) {
  std::string text;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (!text.empty()) text += ' ';
    text += factors[f][row[f]];
  }
  return text;
}

}  // namespace kda::test
