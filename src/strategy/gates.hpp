// What is expected of gates, which nobody knows when a plan is made.
#pragma once

namespace kda::strategy {

// The share of runs whose gates are expected to forget within a few chunks: less than one in three,
// as many as of kda-bench's regimes, since one channel that hardly decays is enough that they do
// not.
inline constexpr double kForget = 0.25;

}  // namespace kda::strategy
