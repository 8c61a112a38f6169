#include "strategy/recurrent_launch.hpp"

#include <fmt/format.h>

#include "problem/shape.hpp"

namespace kda::strategy {

std::int64_t blocks_of(const Problem& problem, const abi::recurrent::Geometry& geometry) {
  return std::int64_t{problem.max_sequences} * problem.value_heads * geometry.slices;
}

Status check_grid(const Problem& problem, const abi::recurrent::Geometry& geometry) {
  constexpr std::int64_t kMaxBlocks = 2147483647;  // of a grid, along x
  const std::int64_t blocks = blocks_of(problem, geometry);
  if (blocks <= kMaxBlocks) return {};
  return Status(Code::unsupported,
                fmt::format("max_sequences = {} with value_heads = {} and value_dim = {} makes {} "
                            "blocks; a grid holds {}: fewer sequences a run",
                            problem.max_sequences, problem.value_heads, problem.value_dim, blocks,
                            kMaxBlocks));
}

std::function<void(const compose::Run&, compose::Launch&)> bind_sequences(
    const Problem& problem, const abi::recurrent::Geometry& geometry, SequencesABlock each) {
  return
      [problem, slices = geometry.slices, each](const compose::Run& run, compose::Launch& launch) {
        const std::int64_t sequences = run.forward.sequences;
        const std::int64_t of_a_sequence = std::int64_t{problem.value_heads} * slices;
        const std::int64_t taken = each(sequences * of_a_sequence);
        launch.grid[0] = static_cast<unsigned>((sequences + taken - 1) / taken * of_a_sequence);
        const abi::Inputs in = problem::inputs_of(problem, run.forward);
        const abi::Outputs out = problem::outputs_of(problem, run.forward);
        if (problem.committed_tokens) {
          launch.set(abi::recurrent::StepArgs<true>{in, out, run.forward.committed_tokens});
        } else {
          launch.set(abi::recurrent::StepArgs<false>{in, out});
        }
      };
}

}  // namespace kda::strategy
