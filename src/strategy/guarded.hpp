// Stages whose kernels a guard lets end at once (templates/base/guard.cuh).
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "abi/chunk.h"
#include "abi/chunk_wgmma.h"
#include "abi/fused.h"
#include "abi/guard.h"
#include "abi/recurrent.h"
#include "abi/segments.h"
#include "compose/recipe.hpp"

namespace kda::strategy {

// Where the kernels of a stage of short sequences lie.
inline constexpr std::string_view kShortFolder = "recurrent/";

// Bound beside the kernel's own Args: where in the workspace the words of what was found lie, and
// what then(run, launch, given) adds.
template <class Args, class Then>
compose::Stage with_words(compose::Stage stage, std::size_t found, Then then) {
  stage.bind = [found, then, bind = std::move(stage.bind)](const compose::Run& run,
                                                           compose::Launch& launch) {
    bind(run, launch);
    abi::Guarded<Args> given;
    std::memcpy(&given.args, launch.args, sizeof given.args);
    given.found = reinterpret_cast<unsigned*>(run.workspace + found);
    then(run, launch, given);
    launch.set(given);
  };
  return stage;
}

// The stage with such a guard, named so.  give<Args>(stage): the same with what the guard wants to
// know bound beside the kernel's own Args.
template <class Give>
Result<compose::Stage> with_guard(compose::Stage stage, std::string_view strategy, abi::Guard guard,
                                  std::string_view name, const Give& give) {
  stage.name += fmt::format("_{}", name);
  stage.prelude += fmt::format("#define KDA_GUARDED {}\n", static_cast<int>(guard));
  const auto is_of = [&](std::string_view folder) { return stage.file.starts_with(folder); };
  if (is_of("fused/")) return give.template operator()<abi::fused::Args>(std::move(stage));
  if (is_of("chunk/")) return give.template operator()<abi::chunk::PrepareArgs>(std::move(stage));
  if (is_of("chunk_wgmma/")) {
    return give.template operator()<abi::chunk_wgmma::Args>(std::move(stage));
  }
  if (is_of("segments/")) return give.template operator()<abi::segments::Args>(std::move(stage));
  if (is_of(kShortFolder)) {
    return give.template operator()<abi::recurrent::StepArgs<false>>(std::move(stage));
  }
  return Status(Code::unsupported,
                fmt::format("strategy {}: {} takes no guard", strategy, stage.file));
}

}  // namespace kda::strategy
