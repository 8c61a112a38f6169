#include "cli/presets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "problem/problem.hpp"

namespace kda::cli {
namespace {

// Checked 2026-11-21.  None of them gives a value head count apart or a dtype of the state: HV = H,
// and the state is f32, as FLA, vLLM and sglang keep it.
constexpr Preset kPresets[] = {
    {"kimi-linear-48b", "huggingface.co/moonshotai/Kimi-Linear-48B-A3B-Instruct", 32, 128, 20, 27,
     Gate::softplus, 0,
     "huggingface/transformers#48250 (linear_num_key_heads 32, linear_key_head_dim 128), arXiv "
     "2510.26692 (27 layers, 3 of 4 KDA); no gate_lower_bound, so the gate is softplus"},
    {"kimi-k3", "huggingface.co/moonshotai/Kimi-K3", 96, 128, 69, 93, Gate::bounded, -5,
     "NVIDIA-NeMo/Megatron-Bridge#5130 (96 KDA heads; full attention every 4th layer and the "
     "93rd)"},
    {"glm-5.3-flash", "huggingface.co/zai-org/GLM-5.3-Flash", 64, 128, 34, 45, Gate::bounded, -5,
     "docs.nvidia.com/nemo/automodel, GLM-5.3-Flash (34 KDA layers of 45); vLLM "
     "vllm/models/glm5next/common/kda.py"},
};

constexpr const char* kUsualRuns[] = {"T=2048,8192,32768", "T=8192 N=8 varlen=1",
                                      "T=64 N=64 pool=1"};

constexpr Column kColumns[] = {{"preset", "preset"},
                               {"H", "H"},
                               {"K", "K"},
                               {"V", "V"},
                               {"gate", "gate"},
                               {"lower_bound", "bound", 0},
                               {"kda_layers", "KDA"},
                               {"layers", "of layers"},
                               {"model", "model"}};

}  // namespace

std::span<const Preset> presets() { return kPresets; }

const Preset* find_preset(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPresets), std::end(kPresets),
                                   [&](const Preset& row) { return name == row.name; });
  return found == std::end(kPresets) ? nullptr : found;
}

Result<Problem> problem_of(const Preset& preset, int tp) {
  if (tp < 1 || preset.heads % tp != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("tp is {}, which does not divide the {} heads of {}", tp,
                              preset.heads, preset.name));
  }
  Problem problem;
  problem.heads = problem.value_heads = preset.heads / tp;
  problem.key_dim = problem.value_dim = preset.head_dim;
  problem.gate = preset.gate;
  if (preset.gate == Gate::bounded) problem.lower_bound = preset.lower_bound;
  problem.initial_state = problem.final_state = true;
  return problem;
}

std::span<const char* const> usual_runs() { return kUsualRuns; }

Json preset_rows() {
  Json rows = Json::array();
  for (const Preset& row : kPresets) {
    const bool bounded = row.gate == Gate::bounded;
    rows.push_back({{"preset", row.name},
                    {"H", row.heads},
                    {"K", row.head_dim},
                    {"V", row.head_dim},
                    {"gate", bounded ? "bounded" : "softplus"},
                    {"lower_bound", bounded ? Json(row.lower_bound) : Json(nullptr)},
                    {"kda_layers", row.kda_layers},
                    {"layers", row.layers},
                    {"model", row.model},
                    {"source", row.source},
                    {"usual_runs", kUsualRuns}});
  }
  return rows;
}

std::span<const Column> preset_columns() { return kColumns; }

}  // namespace kda::cli
