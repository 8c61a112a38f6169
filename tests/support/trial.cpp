#include "support/trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>

#include "problem/problem.hpp"

namespace kda::test {

using reference::Error;
using reference::Errors;
using reference::Outputs;

const char* name_of(Layout layout) {
  constexpr const char* kNames[] = {"contiguous", "heads_first", "sliced", "gapped"};
  return kNames[static_cast<int>(layout)];
}

std::int64_t Trial::tokens() const { return std::accumulate(lengths.begin(), lengths.end(), tail); }

Trial complete(Trial trial) {
  Problem& p = trial.problem;
  const bool even = std::all_of(trial.lengths.begin(), trial.lengths.end(),
                                [&](std::int64_t length) { return length == trial.lengths[0]; });
  p.varlen = p.varlen || !even || trial.tail > 0 || !trial.cu_seqlens.empty();
  p.max_tokens = std::max(p.max_tokens, trial.tokens());
  p.max_sequences = std::max(p.max_sequences, static_cast<int>(trial.lengths.size()));
  if (trial.in_place_state) p.initial_state = p.final_state = true;
  const Result<Problem> completed = problem::complete(p);
  if (!completed) throw std::runtime_error(completed.status().message());
  p = *completed;
  return trial;
}

std::string to_text(const Trial& trial) {
  std::string text = problem::to_text(trial.problem) + " | lengths=";
  for (std::size_t n = 0; n < trial.lengths.size(); ++n) {
    if (n == 8) {
      text += ",... (" + std::to_string(trial.lengths.size()) + ")";
      break;
    }
    text += (n > 0 ? "," : "") + std::to_string(trial.lengths[n]);
  }
  if (trial.tail > 0) text += " tail=" + std::to_string(trial.tail);
  text += " | " + reference::to_text(trial.inputs) + " | " + name_of(trial.layout);
  if (trial.misaligned > 0) text += " misaligned=" + std::to_string(trial.misaligned);
  if (trial.misaligned_o > 0) text += " o=" + std::to_string(trial.misaligned_o) + " more";
  if (trial.in_place_state) text += " in-place state";
  if (!trial.cu_seqlens.empty()) {
    text += " bad cu_seqlens=";
    for (const std::int64_t at : trial.cu_seqlens) text += std::to_string(at) + ",";
  }
  return text;
}

Truth::Truth(const Trial& trial)
    : tensors_(reference::make_tensors(trial.problem, trial.tokens(),
                                       reference::cu_seqlens_of(trial.lengths), trial.inputs)),
      o_allowance_(trial.o_allowance),
      state_allowance_(trial.state_allowance) {}

const reference::Inputs& Truth::inputs() {
  if (!inputs_) inputs_ = reference::reference_inputs(tensors_);
  return *inputs_;
}

const Outputs& Truth::outputs() {
  if (!outputs_) outputs_ = reference::recurrence(inputs());
  return *outputs_;
}

const Errors& Truth::rounded_errors() {
  if (!rounded_) {
    const Outputs rounded =
        reference::recurrence(inputs(), reference::Arithmetic::operands_rounded);
    rounded_ = reference::errors_of(tensors_.problem, rounded, outputs());
  }
  return *rounded_;
}

std::string Truth::judge(const Outputs& x) {
  const Problem& p = tensors_.problem;
  last_ = reference::errors_of(p, x, outputs());
  last_ratio_ = 0;
  std::string failure;
  const auto one = [&](const char* name, const Error& error, double stated, double times,
                       Error Errors::*which) {
    double allowed = stated;
    if (!(error.rel_l2 <= allowed) || error.not_finite > 0) {
      const Error& rounded = rounded_errors().*which;
      // Where even the token recurrence in this dtype leaves its range, nothing is promised.
      if (rounded.not_finite > 0 || !std::isfinite(rounded.rel_l2)) return;
      allowed = times * std::max(stated, reference::kHardInputFactor * rounded.rel_l2);
    }
    last_ratio_ = std::max(last_ratio_, error.rel_l2 / allowed);
    if (error.rel_l2 <= allowed && error.not_finite == 0) return;
    char bound[64];
    std::snprintf(bound, sizeof bound, " (allowed %.2e)", allowed);
    failure += std::string(failure.empty() ? "" : "; ") + name + " " + to_text(error) + bound;
  };
  one("o", last_.o, reference::o_tolerance(p), o_allowance_, &Errors::o);
  if (p.final_state) {
    one("state", last_.state, reference::state_tolerance(p), state_allowance_, &Errors::state);
  }
  return failure;
}

}  // namespace kda::test
