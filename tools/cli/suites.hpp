// The problems that are measured together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/subject.hpp"

namespace kda::cli {

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

// The published sizes of the first kda_prefill, with w and u, the strong gate unless regimes are
// named.
std::vector<Subject> original_suite(const std::vector<std::string>& regimes);

}  // namespace kda::cli
