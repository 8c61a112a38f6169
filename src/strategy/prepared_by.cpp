#include "strategy/prepared_by.hpp"

#include <fmt/format.h>

#include <numbers>

#include "abi/factors.h"
#include "problem/shape.hpp"

namespace kda::strategy {
namespace {

constexpr float kStrongestBound = -100.0F;
constexpr float kStrongestSlab = -119.0F / (16 * std::numbers::log2e_v<float>);  // a token's, 5.15
constexpr float kWeakestSlab = -1e-6F;  // whose inverse the kernels take
constexpr float kScales = 1024.0F;
// Rows of q that come normalised must be at least abi::factors::least_query long times the scale,
// which slabs multiply into them: by smaller ones unit rows would break the promise.
constexpr float kLeastScaleAsGiven = 2 * abi::factors::least_query;

float least_scale(const Problem& problem) {
  return problem.l2norm_qk ? 1 / kScales : kLeastScaleAsGiven;
}

bool is_slabs_bound(float bound) { return bound <= kWeakestSlab && bound >= kStrongestSlab; }
bool is_slabs_scale(const Problem& problem) {
  return problem.scale >= least_scale(problem) && problem.scale <= kScales;
}

const char* name_of(DType type) { return abi::dtypes[static_cast<int>(type)].name; }

// What groups want of a problem, but for what its shape tells them.
bool is_for_groups(const Problem& problem, const device::Device& device, int chunk) {
  return device.major == 9 && problem.wy_chunk == 0 && chunk == abi::factors::chunk &&
         (problem.gate != Gate::bounded || problem.lower_bound >= kStrongestBound);
}

// Why not by groups of either kind, or of the plain one.
std::string why_not(const Problem& problem, const device::Device& device, int chunk, bool plainly) {
  if (device.major != 9) {
    return fmt::format("{} has compute capability {}.{}; wgmma is 9.0's", device.name, device.major,
                       device.minor);
  }
  if (problem.qkv_type == DType::f32 || (plainly && problem.qkv_type != DType::bf16)) {
    return fmt::format("qkv_type is {}; bf16 {} served", name_of(problem.qkv_type),
                       plainly ? "is" : "and f16 are");
  }
  if (problem.key_dim % 64 != 0) {
    return fmt::format("key_dim is {}; multiples of 64 are served", problem.key_dim);
  }
  if (!problem.l2norm_qk && !problem.qk_normalized) {
    return "l2norm_qk and qk_normalized are false; one of them must hold";
  }
  if (plainly && problem.beta_is_logit && problem.allow_neg_eigval) {
    return "allow_neg_eigval is true; beta up to 1 is served";
  }
  if (!problem.beta_is_logit && !problem.beta_at_most_one) {
    return "beta_is_logit and beta_at_most_one are false; one of them must hold";
  }
  if (problem.wy_chunk != 0) {
    return fmt::format("wy_chunk is {}; w and u come of other ways alone", problem.wy_chunk);
  }
  if (chunk != abi::factors::chunk) {
    return fmt::format("chunk is {}; {} is served", chunk, abi::factors::chunk);
  }
  if (!plainly && problem.key_dim > 128 && !abi::factors::serves(problem::shape_of(problem))) {
    return fmt::format("key_dim is {} with {}; 64 and 128 are served", problem.key_dim,
                       problem.qkv_type == DType::f16 ? "qkv_type f16" : "allow_neg_eigval");
  }
  return fmt::format("lower_bound is {}; {} and above are served", problem.lower_bound,
                     kStrongestBound);
}

}  // namespace

bool prepares_plainly(const Problem& problem, const device::Device& device, int chunk) {
  return is_for_groups(problem, device, chunk) && abi::factors::serves(problem::shape_of(problem));
}

std::string why_not_plainly(const Problem& problem, const device::Device& device, int chunk) {
  return prepares_plainly(problem, device, chunk) ? "" : why_not(problem, device, chunk, true);
}

bool prepares_by_group(const Problem& problem, const device::Device& device, int chunk) {
  return prepares_plainly(problem, device, chunk) ||
         (is_for_groups(problem, device, chunk) &&
          abi::factors::serves_with_care(problem::shape_of(problem)));
}

std::string why_not_by_group(const Problem& problem, const device::Device& device, int chunk) {
  return prepares_by_group(problem, device, chunk) ? "" : why_not(problem, device, chunk, false);
}

bool makes_slabs(const Problem& problem) {
  return problem.gate == Gate::bounded && problem.gate_type != DType::f32 &&
         makes_by_teams(problem);
}

bool makes_by_teams(const Problem& problem) { return why_not_by_teams(problem).empty(); }

std::string why_not_by_teams(const Problem& problem) {
  if (problem.gate == Gate::bounded && !is_slabs_bound(problem.lower_bound)) {
    return fmt::format("lower_bound is {}; {:.3f} to {} are served", problem.lower_bound,
                       kStrongestSlab, kWeakestSlab);
  }
  if (is_slabs_scale(problem)) return {};
  return fmt::format("scale is {}{}; 1/{} to {} are served", problem.scale,
                     problem.l2norm_qk ? "" : " with l2norm_qk = false", 1 / least_scale(problem),
                     kScales);
}

Problem without_values(Problem problem) {
  const float bound = problem.lower_bound;
  const bool by_slabs = problem.gate != Gate::bounded || is_slabs_bound(bound);
  problem.lower_bound = by_slabs                   ? 0.0F
                        : bound >= kStrongestBound ? kStrongestBound
                                                   : 2 * kStrongestBound;
  const bool served =
      problem.qkv_type == DType::f16 ? is_segments_scale(problem.scale) : is_slabs_scale(problem);
  problem.scale = served ? 0.0F : 2 * kScales;
  return problem;
}

}  // namespace kda::strategy
