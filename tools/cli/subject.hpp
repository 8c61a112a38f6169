// A problem as the tools take it, with its sequence lengths and gate regime: from a case's or a
// model's name, or from words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kda/kda.hpp"
#include "reference/cases.hpp"

namespace kda::cli {

struct Subject {
  std::string name;                        // the case's or model's name, and the words
  Problem problem;                         // complete; its max_ fields are what a run brings
  std::vector<std::int64_t> cu_seqlens;    // [N + 1]
  std::string regime;                      // "strong", "weak" or "mixed"
  const reference::Case* peers = nullptr;  // set where public kernels were measured
  bool head_major = false;                 // tensors lie as [N, H, T, *], as kda_prefill_f32's do
};

// What the arguments of a command line spell: an argument that holds a blank is one problem, and
// plain name=value arguments belong to the argument before them.
std::vector<std::string> group_words(const std::vector<std::string>& arguments);

// One text to its problems (lists and ranges expand), each in every regime unless the words name
// some.  A model's name (cli/presets.hpp) stands for its layers' problem, `tp` splits their heads.
// Fails with invalid_argument or invalid_problem, naming the known words.
Result<std::vector<Subject>> subjects_of(const std::string& text,
                                         const std::vector<std::string>& regimes);

// The groups with tp given to those that name a model.  Fails where none does.
Result<std::vector<std::string>> with_tp(std::vector<std::string> groups, int tp);

// Inputs, outputs and states moved once: no kernel needs less.
double floor_bytes(const Problem& problem);

}  // namespace kda::cli
