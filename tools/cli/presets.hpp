// TABLE: models by name, as the problems that their KDA layers are.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/rows.hpp"
#include "kda/kda.hpp"

namespace kda::cli {

// As the model's config.json says; the numbers are facts of the checkpoint, none of them a guess.
struct Preset {
  const char* name;
  const char* model;       // where the config.json lies
  int heads, head_dim;     // linear_attn_config: num_heads, head_dim (K and V alike)
  int kda_layers, layers;  // how many of all attend by KDA
  Gate gate;
  float lower_bound;   // linear_attn_config: gate_lower_bound; of Gate::bounded
  const char* source;  // what else says the same
};

std::span<const Preset> presets();
// Null when there is none of that name.
const Preset* find_preset(std::string_view name);

// One device's share of a layer where `tp` devices split the heads.  Fails with invalid_argument
// where they do not divide.  T and N are left open.
Result<Problem> problem_of(const Preset& preset, int tp);

// What is run where the words name no T, N or seqlens: short and long prompts alone, a packed
// batch, a batch of single tokens.  In words, lists to be expanded.
std::span<const char* const> usual_runs();

Json preset_rows();
std::span<const Column> preset_columns();

}  // namespace kda::cli
