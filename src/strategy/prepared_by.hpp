// Which problems' factors are made by groups, slabs and teams of Hopper's kernels, and of others
// why not: the first field in the way, its value and what is served, as a refusal ends; empty where
// nothing is.
#pragma once

#include <string>

#include "device/device.hpp"
#include "kda/kda.hpp"

namespace kda::strategy {

// Whether a group of warps can prepare a chunk in shared memory (templates/sm90/factors): the
// device is a Hopper and the problem's factors stay in 16-bit range.
bool prepares_by_group(const Problem& problem, const device::Device& device, int chunk);
std::string why_not_by_group(const Problem& problem, const device::Device& device, int chunk);

// Whether it can by products of one term each: what cancels leaves bf16's bits by those.  Of others
// (f16, steps past 1) products have split operands (sm90/factors/careful.cuh), which only prepare
// stages have.
bool prepares_plainly(const Problem& problem, const device::Device& device, int chunk);
std::string why_not_plainly(const Problem& problem, const device::Device& device, int chunk);

// Whether each warp of a group can make its channels' rows by itself (templates/sm90/slabs): a
// bounded gate under which no half of a chunk decays by more than 2^-119, whatever g is, g of 16
// bits, and a scale that leaves q times it in f16's range.
bool makes_slabs(const Problem& problem);

// Whether teams of two warps can (templates/sm90/teams): the same of other gates, too, as they look
// how far each half decays, and of g of 32 bits.
bool makes_by_teams(const Problem& problem);
std::string why_not_by_teams(const Problem& problem);

// Scales by which strategy segments serves f16 (abi::segments::query_scale).
constexpr float kLeastSegmentsScale = 1.0F / 128, kMostSegmentsScale = 16.0F;
constexpr bool is_segments_scale(float scale) {
  return scale >= kLeastSegmentsScale && scale <= kMostSegmentsScale;
}

// The problem with lower_bound and scale of 0, or of a number for all by which other kernels serve
// it: what was measured by one of them is true of the others.
Problem without_values(Problem problem);

}  // namespace kda::strategy
