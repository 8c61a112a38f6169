// A candidate made ready to run one problem.
#pragma once

#include <cstddef>

#include "cache/cache.hpp"
#include "program/program.hpp"
#include "tune/candidate.hpp"

namespace kda::tune {

struct Loaded {
  Problem problem;
  program::Program program;
};

// problem is complete.  Fails with unsupported where the candidate cannot serve it.
Result<Loaded> load(const Candidate& candidate, const Problem& problem,
                    const device::Device& device, cache::Cache& cache);

// Onto the stream; forward as a caller of Plan::run gives it, already checked.
Status enqueue(const Loaded& loaded, Forward forward, void* workspace, Stream stream);

}  // namespace kda::tune
