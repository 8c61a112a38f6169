#include "strategy/prepared_by.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <numbers>

#include "abi/dtype.h"
#include "abi/factors.h"

namespace kda::strategy {
namespace {

struct Subject {
  const Problem& problem;
  const device::Device* device = nullptr;  // of groups
  int chunk = 0;                           // likewise
};

struct Need {
  bool (*holds)(const Subject& of);
  std::string (*otherwise)(const Subject& of);
};

constexpr float kStrongestBound = -100.0F;
constexpr float kStrongestSlab = -119.0F / (16 * std::numbers::log2e_v<float>);  // a token's, 5.15
constexpr float kWeakestSlab = -1e-6F;  // whose inverse the kernels take
constexpr float kScales = 1024.0F;

const char* name_of(DType type) { return abi::dtypes[static_cast<int>(type)].name; }

// TABLE: abi::factors::serves, and what the host knows besides.
constexpr Need kGroupNeeds[] = {
    {[](const Subject& of) { return of.device->major == 9; },
     [](const Subject& of) {
       return fmt::format("{} has compute capability {}.{}; wgmma is 9.0's", of.device->name,
                          of.device->major, of.device->minor);
     }},
    {[](const Subject& of) { return of.problem.qkv_type == DType::bf16; },
     [](const Subject& of) {
       return fmt::format("qkv_type is {}; bf16 is served", name_of(of.problem.qkv_type));
     }},
    {[](const Subject& of) { return of.problem.key_dim % 64 == 0; },
     [](const Subject& of) {
       return fmt::format("key_dim is {}; multiples of 64 are served", of.problem.key_dim);
     }},
    {[](const Subject& of) { return of.problem.l2norm_qk || of.problem.qk_normalized; },
     [](const Subject&) {
       return std::string("l2norm_qk and qk_normalized are false; one of them must hold");
     }},
    {[](const Subject& of) { return !of.problem.beta_is_logit || !of.problem.allow_neg_eigval; },
     [](const Subject&) {
       return std::string("allow_neg_eigval is true; beta up to 1 is served");
     }},
    {[](const Subject& of) { return of.problem.beta_is_logit || of.problem.beta_at_most_one; },
     [](const Subject&) {
       return std::string("beta_is_logit and beta_at_most_one are false; one of them must hold");
     }},
    {[](const Subject& of) {
       return of.problem.gate != Gate::bounded || of.problem.lower_bound >= kStrongestBound;
     },
     [](const Subject& of) {
       return fmt::format("lower_bound is {}; {} and above are served", of.problem.lower_bound,
                          kStrongestBound);
     }},
    {[](const Subject& of) { return of.problem.wy_chunk == 0; },
     [](const Subject& of) {
       return fmt::format("wy_chunk is {}; w and u come of other ways alone", of.problem.wy_chunk);
     }},
    {[](const Subject& of) { return of.chunk == abi::factors::chunk; },
     [](const Subject& of) {
       return fmt::format("chunk is {}; {} is served", of.chunk, abi::factors::chunk);
     }},
};

// TABLE
constexpr Need kSlabNeeds[] = {
    {[](const Subject& of) { return of.problem.gate == Gate::bounded; },
     [](const Subject&) { return std::string("gate is not bounded; Gate::bounded is served"); }},
    {[](const Subject& of) { return of.problem.gate_type != DType::f32; },
     [](const Subject&) { return std::string("gate_type is f32; bf16 and f16 are served"); }},
    {[](const Subject& of) {
       return of.problem.lower_bound >= kStrongestSlab && of.problem.lower_bound <= kWeakestSlab;
     },
     [](const Subject& of) {
       return fmt::format("lower_bound is {}; {:.3f} to {} are served", of.problem.lower_bound,
                          kStrongestSlab, kWeakestSlab);
     }},
    {[](const Subject& of) {
       return of.problem.scale >= 1 / kScales && of.problem.scale <= kScales;
     },
     [](const Subject& of) {
       return fmt::format("scale is {}; 1/{} to {} are served", of.problem.scale, kScales, kScales);
     }},
};

template <std::size_t count>
const Need* first_unmet(const Need (&needs)[count], const Subject& of) {
  for (const Need& need : needs) {
    if (!need.holds(of)) return &need;
  }
  return nullptr;
}

template <std::size_t count>
std::string said(const Need (&needs)[count], const Subject& of) {
  const Need* const unmet = first_unmet(needs, of);
  return unmet == nullptr ? std::string() : unmet->otherwise(of);
}

}  // namespace

bool prepares_by_group(const Problem& problem, const device::Device& device, int chunk) {
  return first_unmet(kGroupNeeds, {problem, &device, chunk}) == nullptr;
}
std::string why_not_by_group(const Problem& problem, const device::Device& device, int chunk) {
  return said(kGroupNeeds, {problem, &device, chunk});
}

bool makes_slabs(const Problem& problem) { return first_unmet(kSlabNeeds, {problem}) == nullptr; }
std::string why_not_slabs(const Problem& problem) { return said(kSlabNeeds, {problem}); }

}  // namespace kda::strategy
