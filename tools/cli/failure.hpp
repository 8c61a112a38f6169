// How a tool gives up: a sentence for stderr and an exit code, thrown to its main.
#pragma once

#include <stdexcept>
#include <string>

#include "cli/exit_code.hpp"
#include "kda/status.hpp"

namespace kda::cli {

struct Failure : std::runtime_error {
  Failure(ExitCode exit, const std::string& sentence) : std::runtime_error(sentence), code(exit) {}
  ExitCode code;
};

// A wrong word is the user's, anything else a failure.
inline ExitCode exit_code_of(const Status& status) {
  const bool word =
      status.code() == Code::invalid_argument || status.code() == Code::invalid_problem;
  return word ? kBadCommand : kFailed;
}

inline void must(const Status& status) {
  if (!status.ok()) throw Failure(exit_code_of(status), status.message());
}

template <class T>
T must(Result<T> result) {
  must(result.status());
  return *std::move(result);
}

}  // namespace kda::cli
