// How measuring gives up inside: thrown up to whoever asked for a measurement, who turns it into a
// Status again.  Nothing of it leaves the library.
#pragma once

#include <stdexcept>
#include <utility>

#include "kda/status.hpp"

namespace kda::measure {

struct Failure : std::runtime_error {
  explicit Failure(Status why) : std::runtime_error(why.message()), status(std::move(why)) {}
  Status status;
};

inline void must(const Status& status) {
  if (!status.ok()) throw Failure(status);
}

template <class T>
T must(Result<T> result) {
  must(result.status());
  return *std::move(result);
}

}  // namespace kda::measure
