// How long a problem's sequences are, as far as it says.
#pragma once

#include <algorithm>
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

// More than the lanes of a warp, of which each can hold one's length.
inline bool has_many(const Problem& problem) { return problem.max_sequences > 32; }

// Whether a pack that does not say so may be decodes beside prefills, for all that its mean says.
inline bool may_have_short(const Problem& problem) {
  return problem.varlen && !problem.mixed_lengths && has_many(problem);
}

// The length that most of the tokens are in: a mixed pack's longest, as the others have one token
// each, and in any other the mean.
inline double usual_length(const Problem& problem) {
  if (!is_mixed(problem)) return mean_length(problem);
  const auto others = static_cast<double>(problem.max_sequences - 1);
  return static_cast<double>(problem.max_tokens) > others
             ? static_cast<double>(problem.max_tokens) - others
             : 1.0;
}

// Below this mean a pack's sequences are expected to be as long as it, so far as they are alike.
constexpr double kAlikeTokens = 16;

// Those whose mean is below this may be many short prompts, or what an engine plans for decodes
// beside a prefill (8448 tokens of 257 sequences).
constexpr double kMixedTokens = 64;

// Of more than 32 sequences, of which a plan may have few decodes and much room for prefills (64
// and 4096 tokens), those whose mean is below this.
constexpr double kMixedTokensOfMany = 256;

// Whether a pack leaves open how its sequences differ.  Drafts are of one length, and say so.
inline bool leaves_open(const Problem& problem) {
  return problem.varlen && problem.max_sequences > 1 && !problem.mixed_lengths &&
         !problem.draft_states && !problem.committed_tokens;
}

// Whether it may as well be the one as the other.
inline bool may_be_mixed(const Problem& problem) {
  const double mean = mean_length(problem);
  return leaves_open(problem) && mean > 1 &&
         mean < (has_many(problem) ? kMixedTokensOfMany : kMixedTokens);
}

// How often a pack that leaves it open is taken to be decodes beside a prefill, else for sequences
// that are alike.  Of 31 decodes beside 8192 tokens 8 heads take 305 us by what is best for 32 that
// are alike, and 140 by both ways; of six beside 4096 16 heads 156 and 88 (an H200).  Never of up
// to 32 sequences that have just 64 tokens each: 16 heads would go by chains then, 58 us for 52.
inline double mixed_share(const Problem& problem) {
  if (may_be_mixed(problem)) return 0.5;
  return leaves_open(problem) && mean_length(problem) > kMixedTokens ? 0.25 : 0.0;
}

// How many times the mean the longest sequence has where tokens are cut at random places: of N
// sequences 1 + 1/2 + ... + 1/N.  Of more than 64 a run no longer waits for its longest.
inline double longest_at_random(const Problem& problem) {
  double times = 0.0;
  constexpr int kMost = 64;
  for (int n = 1; n <= std::min(problem.max_sequences, kMost); ++n) times += 1.0 / n;
  return times;
}

// Of the longest, which a chain of chunks waits for.  Dense sequences are alike.  A pack's may be
// or may differ, which a plan cannot know: some way, `differ`, from all alike (0) to tokens cut at
// random places (1).
inline double longest_length(const Problem& problem, double differ = 0.5) {
  const double usual = usual_length(problem);
  if (is_mixed(problem) || !problem.varlen || usual < kAlikeTokens) return usual;
  return (1.0 + differ * (longest_at_random(problem) - 1.0)) * usual;
}

// Checkpoints of a sequence of so many tokens.
inline double checkpoints_of(const Problem& problem, double tokens) {
  return problem.checkpoint_tokens > 0 ? std::floor(tokens / problem.checkpoint_tokens) : 0.0;
}

// A mixed pack's longest sequence without the others.
inline Problem longest_alone(const Problem& problem) {
  Problem alone = problem;
  alone.max_tokens = static_cast<std::int64_t>(usual_length(problem));
  alone.max_sequences = 1;
  alone.mixed_lengths = false;
  return alone;
}

}  // namespace kda::strategy
