// Who wins the finals: only what beats the default by more than noise replaces it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "tune/measurement.hpp"

namespace kda::tune {

// The least gain over the default that counts, however quiet the measurement.
constexpr double kLeastGain = 0.01;

struct Decision {
  std::size_t winner = 0;      // of the finals
  std::optional<double> gain;  // of the winner over the default; none: the default was not timed
  std::string words;           // "12.3% under the default"
};

// Of the candidates that are ok: the fastest, unless others are no slower by more than max(1%,
// noise), when the one of fewest needs is taken; and the default, unless that one's gain exceeds
// max(1%, noise).  None where no candidate is ok.
std::optional<Decision> decide(std::span<const Measurement> finals, const Candidate& fallback);

}  // namespace kda::tune
