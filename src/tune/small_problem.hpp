// The problem on which candidates are verified before they are timed.
#pragma once

#include <cstdint>
#include <vector>

#include "compose/recipe.hpp"
#include "kda/kda.hpp"

namespace kda::tune {

struct SmallProblem {
  Problem problem;
  std::vector<std::int64_t> lengths;  // of its sequences
};

// A few heads, short odd sequences, and one long enough to fill every pipeline.  Its kernels are
// those of the problem itself, for kernels know neither T nor N nor H, so that every element of
// every head can be checked in a moment; but where a strategy has others for long runs.
SmallProblem small_problem(const Problem& problem);

// Whether a candidate's kernels for the whole problem are among those for the small one; else it is
// to be verified at its own size, too.
bool has_kernels_of(const compose::Recipe& whole, const compose::Recipe& small);

// What a search runs where no lengths are known: T over N sequences, as even as can be, or one
// token each and the rest for the last where lengths are mixed.  Of a dense run as many tokens as N
// divides, or as many sequences as tokens where those are fewer.
std::vector<std::int64_t> usual_lengths(const Problem& problem);

}  // namespace kda::tune
