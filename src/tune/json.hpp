// JSON objects read field by field: the first thing wrong is kept as a sentence, nothing throws.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kda/status.hpp"

namespace kda::tune {

using Json = nlohmann::ordered_json;

// Discarded where the text is no JSON, or nests more than 32 levels.
Json parse_json(std::string_view text);

// On one line; what is no UTF-8 is replaced.
inline std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Fields {
 public:
  // what: "measurement", for messages.
  Fields(std::string_view text, std::string what);
  Fields(const Json& object, std::string what);

  // A field that must be there and of its kind; else a neutral value, and status() says so.
  std::string text(const char* name);
  double number(const char* name);
  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high);
  std::vector<std::int64_t> integers(const char* name);
  const Json& object(const char* name);
  const Json& array(const char* name);

  // Whether it is there at all.
  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }

  void refuse(const std::string& why, Code code = Code::invalid_argument);
  // ok, or the first refusal's code.
  const Status& status() const { return status_; }

 private:
  const Json& field(const char* name);

  Json json_;
  std::string what_;
  Status status_;
};

}  // namespace kda::tune
