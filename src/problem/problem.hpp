// Problem: checks, defaults and text form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kda/kda.hpp"

namespace kda::problem {

// Elements of one sequence's state.
inline std::int64_t slot_elements(const Problem& problem) {
  return std::int64_t{problem.value_heads} * problem.key_dim * problem.value_dim;
}

// Checks every field against its limits and the others, and fills in value_heads and scale.
// Fails with invalid_problem, naming field, value and limit.
Result<Problem> complete(const Problem& problem);

// "T=8192 N=1 H=16 HV=64 K=128 V=128 qkv=bf16 ...": every field, in one fixed order; those of
// serving only where they are not the default.
std::string to_text(const Problem& problem);

// All words for a help text: a line each, "  pool=0              what it means", with its default.
std::string explain_words(const Problem& defaults);

// Overwrites the named fields of start; the same words as to_text.  Fails with invalid_argument,
// naming the word and the known ones.
Result<Problem> parse(std::string_view text, const Problem& start = {});

}  // namespace kda::problem
