// A problem as the tools take it, with its sequence lengths and gate regime: from a case's name or
// from words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kda/kda.hpp"
#include "reference/cases.hpp"

namespace kda::cli {

struct Subject {
  std::string name;                        // the case's name, or the words
  Problem problem;                         // complete; its max_ fields are what a run brings
  std::vector<std::int64_t> cu_seqlens;    // [N + 1]
  std::string regime;                      // "strong", "weak" or "mixed"
  const reference::Case* peers = nullptr;  // set where the numbers of peers.md apply
};

// What the arguments of a command line spell: an argument that holds a blank is one problem, and
// plain name=value arguments belong to the argument before them.
std::vector<std::string> group_words(const std::vector<std::string>& arguments);

// One text to its problems (lists expand), each in every regime unless the words name some.
// Fails with invalid_argument or invalid_problem, naming the known words.
Result<std::vector<Subject>> subjects_of(const std::string& text,
                                         const std::vector<std::string>& regimes);

// Every case in every regime; a case's regimes are neighbours.
std::vector<Subject> suite(const std::vector<std::string>& regimes);

// One sequence of 8,192 to a million tokens for few, some and many heads, the strong gate unless
// regimes are named: time and memory are to grow as T does.
std::vector<Subject> linear_suite(const std::vector<std::string>& regimes);

// TABLES: what the suites decode and serving measure, as words: one token and a few from pools of
// states; checkpoints beside none, and decodes packed with a prefill beside each alone.
std::span<const char* const> decode_problems();
std::span<const char* const> serving_problems();
// The problems, the strong gate unless regimes are named.
std::vector<Subject> serving_suite(std::span<const char* const> problems,
                                   const std::vector<std::string>& regimes);

// Inputs, outputs and states moved once: no kernel needs less.
double floor_bytes(const Problem& problem);

}  // namespace kda::cli
