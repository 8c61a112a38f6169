// The row type of a strategy's tunables: name, field, the values worth trying, what it means.  A
// field that is new is initialised to what kernels did before: older wisdom does not name it.
#pragma once

namespace kda::abi {

template <class Tuning>
struct Tunable {
  const char* name;
  int Tuning::*field;
  int values[12];  // ends at the first 0
  const char* meaning;
};

}  // namespace kda::abi
