// The kernels of many plans that tell something new.  A kernel is specialised on values of its
// problem and tuning, compiled for a target: it is new where it brings two of these together that
// no kernel of its template had before.  Those that bring most come first, which leaves fewer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kda/kda.hpp"
#include "program/program.hpp"

namespace kda::test {

struct Wanted {
  Problem problem;
  std::string target, strategy, tuning;
};

struct NewOnes {
  Status status;       // whether the planner takes it and the new ones compiled
  std::string tuning;  // whole
  device::Device device;
  std::vector<program::Kernel> kernels;
};

class NewKernels {
 public:
  explicit NewKernels(std::string cache_dir) : cache_dir_(std::move(cache_dir)) {}

  // Chooses each and compiles what is new, all cores at it; the results in the same order.
  std::vector<NewOnes> make(const std::vector<Wanted>& all);

 private:
  // A kernel that may be compiled.
  struct Candidate {
    std::vector<std::uint32_t> pairs;  // that it has, by number
    bool chosen = false;
  };
  Candidate candidate_of(const compose::Stage& stage, const device::Device& device);
  // Until all pairs that any of them has are met.
  void choose_among(std::vector<Candidate>& candidates);

  std::string cache_dir_;
  std::map<std::string, std::uint32_t> numbers_;  // of a template and two values
  std::vector<bool> met_;                         // by number
};

}  // namespace kda::test
