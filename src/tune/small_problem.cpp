#include "tune/small_problem.hpp"

#include <algorithm>
#include <numeric>

#include "abi/factors.h"
#include "strategy/segments.hpp"

namespace kda::tune {

namespace {

// Shorter than any chunk, past one, a whole number of them, and many.
constexpr std::int64_t kPacked[] = {1, 67, 128, 700};
// More than kFewSequences: stages differ there.
constexpr std::int64_t kManyPacked[] = {1, 67, 128, 700, 3, 32, 40, 5, 96};
static_assert(std::size(kManyPacked) > strategy::kFewSequences);
static_assert(std::size(kPacked) <= strategy::kFewSequences);
// Nor so many that groups beside chains could not walk over them.
static_assert(std::size(kManyPacked) <= abi::factors::most_walked);
constexpr std::int64_t kDense[] = {451, 451};
constexpr int kHeads = 2;

}  // namespace

SmallProblem small_problem(const Problem& problem) {
  SmallProblem small{problem, {}};
  const int group = problem.value_heads / problem.heads;
  small.problem.heads = std::min(problem.heads, kHeads);
  small.problem.value_heads = group * small.problem.heads;
  if (problem.varlen && problem.max_sequences > strategy::kFewSequences) {
    small.lengths.assign(std::begin(kManyPacked), std::end(kManyPacked));
  } else if (problem.varlen) {
    small.lengths.assign(std::begin(kPacked), std::end(kPacked));
  } else {
    small.lengths.assign(std::begin(kDense), std::end(kDense));
  }
  small.problem.max_sequences = static_cast<int>(small.lengths.size());
  small.problem.max_tokens =
      std::accumulate(small.lengths.begin(), small.lengths.end(), std::int64_t{0});
  return small;
}

bool has_kernels_of(const compose::Recipe& whole, const compose::Recipe& small) {
  return std::ranges::all_of(whole.stages, [&](const compose::Stage& wanted) {
    return std::ranges::any_of(small.stages, [&](const compose::Stage& stage) {
      return stage.file == wanted.file && stage.prelude == wanted.prelude;
    });
  });
}

std::vector<std::int64_t> usual_lengths(const Problem& problem) {
  const std::int64_t tokens = problem.max_tokens;
  std::int64_t sequences = problem.max_sequences;
  if (!problem.varlen) sequences = std::max(std::min(sequences, tokens), std::int64_t{1});
  const bool mixed = problem.mixed_lengths && tokens >= sequences;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(sequences),
                                    mixed ? 1 : tokens / sequences);
  if (mixed) {
    lengths.back() = tokens - sequences + 1;
  } else if (problem.varlen) {
    for (std::int64_t i = 0; i < tokens % sequences; ++i) ++lengths[static_cast<std::size_t>(i)];
  }
  return lengths;
}

}  // namespace kda::tune
