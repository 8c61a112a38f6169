#include "compose/recipe.hpp"

#include <fmt/format.h>

namespace kda::compose {

std::string to_text(const Recipe& recipe) {
  std::string text = fmt::format("strategy {}\ntuning {}\nworkspace {} bytes\n", recipe.strategy,
                                 tunable::to_text(recipe.tuning), recipe.workspace_bytes);
  for (const Stage& stage : recipe.stages) {
    text += fmt::format("\nstage {}: {} in {}\n{} threads, {} bytes of dynamic shared memory",
                        stage.name, stage.entry, stage.file, stage.threads, stage.shared_bytes);
    if (stage.cluster > 1) text += fmt::format(", clusters of {}", stage.cluster);
    if (stage.overlaps_previous) text += ", overlaps the stage before";
    text += '\n' + stage.prelude;
  }
  return text;
}

}  // namespace kda::compose
