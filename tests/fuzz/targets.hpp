// What the fuzzers feed: the parsers of files and words that others may have written.  A target
// throws where a parser contradicts itself; a sanitizer finds the rest.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "cache/bundle.hpp"
#include "cache/bytes.hpp"
#include "cache/entry_file.hpp"
#include "cache/fields.hpp"
#include "compile/elf.hpp"
#include "compile/probe.hpp"
#include "compile/resources.hpp"
#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "tunable/space.hpp"
#include "tune/record.hpp"
#include "tune/wisdom.hpp"

namespace kda::fuzz {

inline void must(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// As it comes, and with sizes and digest made right, so that what lies behind them is reached too.
inline void entry(std::string_view bytes) {
  cache::Stored stored;
  if (cache::decode(bytes, stored).empty()) {
    cache::Key key;
    for (const auto& [name, value] : stored.key) key.add(name, value);
    must(key.text() == stored.key_text, "a key is not its fields");
    cache::Entry again;
    must(cache::decode(cache::encode(key, stored.entry), key, again).empty(), "encode, decode");
    must(again.cubin == stored.entry.cubin, "the cubin changed");
  }
  (void)compile::check_cubin(stored.entry.cubin, stored.entry.entry);
  if (bytes.starts_with("kdaobj1\n")) return;
  std::string whole = "kdaobj1\n";
  cache::append_number(whole, bytes.size());
  cache::append_number(whole, 5);
  whole += bytes;
  whole += "cubin";
  entry(whole + base::digest(whole));
}

inline void bundle(std::string_view bytes) {
  if (const auto opened = cache::Bundle::open("fuzz", bytes)) {
    for (std::size_t row = 0; row < (*opened)->size(); ++row) {
      cache::Stored stored;
      if (!cache::decode((*opened)->entry(row), stored).empty()) continue;
      (void)(*opened)->find(cache::portable_digest(stored.key));
    }
  }
  if (bytes.starts_with("kdabun1\n")) return;
  // An index of rows as the input has them, under a digest that fits.
  const std::size_t rows = bytes.size() / 48;
  std::string whole = "kdabun1\n";
  cache::append_number(whole, rows);
  whole += bytes.substr(0, rows * 48);
  bundle(whole + base::digest(whole) + std::string(bytes));
}

inline void problem(std::string_view text) {
  const auto parsed = problem::parse(text);
  if (!parsed) return;
  const std::string words = problem::to_text(*parsed);
  const auto again = problem::parse(words);
  must(again.status().ok(), "a problem's own words do not parse");
  must(problem::to_text(*again) == words, "a problem's words change");
  (void)problem::complete(*parsed);
}

// A tuning of every strategy, a key's fields, ptxas's report, the comment that opens PTX.
inline void words(std::string_view text) {
  for (const strategy::Strategy* strategy : strategy::table()) {
    const tunable::Space space = strategy->space();
    tunable::Values first;
    for (const tunable::Row& row : space) first.emplace_back(row.name, row.values.at(0));
    (void)tunable::parse(text, space, first);
  }
  if (const auto fields = cache::parse_fields(text)) {
    std::string again;
    for (const auto& [name, value] : *fields) cache::append_field(again, name, value);
    must(cache::parse_fields(again).has_value(), "fields do not survive");
  }
  if (const auto settings = base::parse_settings(text)) {
    const auto again = base::parse_settings(base::to_text(*settings));
    must(again.status().ok() && again->size() == settings->size(), "settings do not survive");
  }
  (void)base::parse_bytes(text);
  (void)compile::parse_resources(text, "kda_kernel");
  (void)compile::parse_build(text);
  (void)compile::check_cubin(text, "kda_kernel");
}

// A line of wisdom, a line of a journal, a file to import.
inline void wisdom(std::string_view text) {
  if (const auto record = tune::parse_record(text)) {
    const std::string line = tune::to_json(*record);
    const auto again = tune::parse_record(line);
    must(again.status().ok(), "a record's own line does not parse");
    must(tune::to_json(*again) == line, "a record changes");
    must(tune::key_digest(again->problem).size() == 16, "a record has no key");
  }
  if (const auto measurement = tune::parse_measurement(text)) {
    const auto again = tune::parse_measurement(tune::to_json(*measurement));
    must(again.status().ok(), "a measurement's own line does not parse");
  }
  if (text.find('\n') == std::string_view::npos) return;
  tune::Wisdom memory("", "", base::env::CacheMode::off);
  (void)tune::import_lines(text, memory, true);
}

struct Target {
  const char* name;
  void (*run)(std::string_view);
};
inline constexpr Target targets[] = {{"entry", entry},
                                     {"bundle", bundle},
                                     {"problem", problem},
                                     {"words", words},
                                     {"wisdom", wisdom}};

}  // namespace kda::fuzz
