#include "api/options.hpp"

#include <fmt/format.h>

#include "api/c_enums.hpp"

namespace kda::api {

namespace {

template <class Enum>
Status check_enum(const char* name, Enum value) {
  const auto number = static_cast<std::int32_t>(value);
  if (number >= 0 && number <= last_of<Enum>) return {};
  return {Code::invalid_argument,
          fmt::format("{} = {}; kda.hpp has 0..{}", name, number, last_of<Enum>)};
}

}  // namespace

Status check(const Options& options) {
  if (Status status = check_enum("effort", options.effort); !status) return status;
  if (Status status = check_enum("cache_mode", options.cache_mode); !status) return status;
  if (options.time_limit_seconds >= 0) return {};  // which nothing is that is no number
  return {Code::invalid_argument,
          fmt::format("time_limit_seconds = {}; it is a number of seconds, or 0 for no limit",
                      options.time_limit_seconds)};
}

}  // namespace kda::api
