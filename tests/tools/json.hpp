// JSON values as what they hold: Catch2 compares and prints these in every version.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kda::test {

using Json = nlohmann::ordered_json;

inline double number(const Json& value) { return value.get<double>(); }
inline std::string text(const Json& value) { return value.get<std::string>(); }

}  // namespace kda::test
