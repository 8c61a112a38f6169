// Two runs of kda-bench or kda-tune, row by row: what got faster, what slower, what the noise
// hides.
#pragma once

#include <string>

#include "cli/rows.hpp"
#include "measure/statistics.hpp"

namespace kda::cli {

enum class Verdict {
  same,    // no further apart than the threshold
  fast,    // the second is faster, by more than threshold and noise
  slow,    // it is slower, by as much
  ambg,    // further apart than the threshold, but not than the noise; or too noisy to be the same
  broke,   // right in the first, not in the second
  mended,  // the other way round
  gone,    // only in the first
  added,   // only in the second
};
const char* name_of(Verdict verdict) noexcept;  // "SAME", "FAST", ...

struct Judged {
  Verdict verdict;
  double change = 0;  // second over first, less 1
  double noise = 0;   // what such a change may be by chance: both quartile distances together
};
// threshold: 0.01 is one percent.
Judged judge(const measure::Summary& first, const measure::Summary& second, double threshold);

// The rows with times of a file that kda-bench --json, kda-tune ... -o json or jsonl, or kda-tune
// wisdom export wrote.  Fails with invalid_argument where it is none of these.
Result<Json> read_results(const std::string& path);

// {"compared": a row a question with problem, regime, variant, first_us, second_us, change_percent,
// noise_percent, verdict, note; "summary": one row with how many of each verdict and the geometric
// mean of second over first}
Json compare(const Json& first, const Json& second, double threshold);

}  // namespace kda::cli
