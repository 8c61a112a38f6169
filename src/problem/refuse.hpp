// What the checks answer with.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "kda/kda.hpp"

namespace kda::problem {

template <class... Args>
Status refuse_argument(fmt::format_string<Args...> format, Args&&... args) {
  return Status(Code::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
Status refuse_problem(fmt::format_string<Args...> format, Args&&... args) {
  return Status(Code::invalid_problem, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kda::problem
