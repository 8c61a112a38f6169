#include "tune/loaded.hpp"

#include <utility>

#include "problem/shape.hpp"
#include "strategy/table.hpp"

namespace kda::tune {

Result<Loaded> load(const Candidate& candidate, const Problem& problem,
                    const device::Device& device, cache::Cache& cache) {
  const strategy::Strategy* strategy = strategy::find(candidate.strategy);
  if (strategy == nullptr) {
    return Status(Code::invalid_argument, "no strategy " + candidate.strategy);
  }
  if (Status status = strategy->applicable(problem, device); !status) return status;
  Result<compose::Recipe> recipe = strategy->compose(problem, device, candidate.tuning);
  if (!recipe) return recipe.status();
  recipe->strategy = candidate.strategy;
  recipe->tuning = candidate.tuning;
  Result<program::Program> program = program::build(*std::move(recipe), device, cache);
  if (!program) return program.status();
  return Loaded{problem, *std::move(program)};
}

Status enqueue(const Loaded& loaded, Forward forward, void* workspace, Stream stream) {
  problem::fill_strides(loaded.problem, forward);
  return program::enqueue(loaded.program, {forward, static_cast<std::byte*>(workspace)}, stream);
}

}  // namespace kda::tune
