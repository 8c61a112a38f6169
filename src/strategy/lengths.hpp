// How long a problem's sequences are, as far as it says.
#pragma once

#include <cmath>
#include <cstdint>

#include "kda/kda.hpp"

namespace kda::strategy {

inline double mean_length(const Problem& problem) {
  return static_cast<double>(problem.max_tokens) / problem.max_sequences;
}

// Whether decodes are packed beside a prefill.
inline bool is_mixed(const Problem& problem) {
  return problem.mixed_lengths && problem.max_sequences > 1;
}

// Of the longest: in a mixed pack the others have one token each, in any other they are alike.
inline double longest_length(const Problem& problem) {
  if (!is_mixed(problem)) return mean_length(problem);
  const auto others = static_cast<double>(problem.max_sequences - 1);
  return static_cast<double>(problem.max_tokens) > others
             ? static_cast<double>(problem.max_tokens) - others
             : 1.0;
}

// Checkpoints of a sequence of so many tokens.
inline double checkpoints_of(const Problem& problem, double tokens) {
  return problem.checkpoint_tokens > 0 ? std::floor(tokens / problem.checkpoint_tokens) : 0.0;
}

// A mixed pack's longest sequence without the others.
inline Problem longest_alone(const Problem& problem) {
  Problem alone = problem;
  alone.max_tokens = static_cast<std::int64_t>(longest_length(problem));
  alone.max_sequences = 1;
  alone.mixed_lengths = false;
  return alone;
}

}  // namespace kda::strategy
