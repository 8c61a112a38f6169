// One way to compute KDA: a row of strategy/table.cpp.
#pragma once

#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"
#include "tunable/space.hpp"

namespace kda::strategy {

struct Strategy {
  const char* name;
  const char* summary;  // a line for kda-tune list

  // Whether it can serve the (completed) problem on the device at all: ok, or unsupported and why.
  Status (*applicable)(const Problem&, const device::Device&);

  tunable::Space (*space)();

  // The tuning to use where nothing was measured.
  tunable::Values (*defaults)(const Problem&, const device::Device&);

  // Fails with unsupported where this tuning cannot serve (shared memory, divisibility), saying
  // which limit; never compiles.
  Result<compose::Recipe> (*compose)(const Problem&, const device::Device&, const tunable::Values&);

  // Expected GPU microseconds at max_tokens, of sequences as long as lengths.hpp takes them to be;
  // candidates are ordered by what expected.hpp makes of it.
  double (*estimate)(const Problem&, const device::Device&, const tunable::Values&);

  // Whether which way its runs go depends on their gates.  A search has gates of one kind, so it
  // tries such a strategy only by name, and what it records says nothing of it.
  bool goes_by_gates = false;
};

}  // namespace kda::strategy
