// The problem on which candidates are verified before they are timed.
#pragma once

#include <cstdint>
#include <vector>

#include "kda/kda.hpp"

namespace kda::tune {

struct SmallProblem {
  Problem problem;
  std::vector<std::int64_t> lengths;  // of its sequences
};

// A few heads, short odd sequences, and one long enough to fill every pipeline.  Its kernels are
// those of the problem itself, for kernels know neither T nor N nor H, so that every element of
// every head can be checked in a moment.
SmallProblem small_problem(const Problem& problem);

// What a search runs where no lengths are known: T over N sequences, as even as can be, or one
// token each and the rest for the last where lengths are mixed.
std::vector<std::int64_t> usual_lengths(const Problem& problem);

}  // namespace kda::tune
