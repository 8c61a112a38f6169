// Entries that no compiler made.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache.hpp"
#include "kda/log.hpp"

namespace kda::test {

inline cache::Key key_for(const std::string& source) {
  cache::Key key;
  key.add("source", source);
  key.add("target", "sm_90a");
  return key;
}

inline cache::Entry entry_for(const std::string& source) {
  return {.entry = "kernel",
          .target = "sm_90a",
          .cubin = std::string("\x7f"
                               "ELF\0\n",
                               6) +
                   source,
          .resources = {.registers = 96,
                        .spill_bytes = 8,
                        .stack_bytes = 16,
                        .static_shared_bytes = 1024,
                        .serialized_wgmma = 1,
                        .compile_milliseconds = 12.5}};
}

// The warnings of a scope.
class Warnings {
 public:
  Warnings() {
    set_log(LogLevel::warn, [this](LogLevel, std::string_view text) { texts.emplace_back(text); });
  }
  ~Warnings() { set_log(LogLevel::off); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> texts;
};

// Gets the key of `source`, building it where nothing has it; what came is right or the test fails.
inline cache::Origin origin_of(cache::Cache& cache, const std::string& source = "a") {
  const Result<cache::Found> found =
      cache.get(key_for(source), [&]() -> Result<cache::Entry> { return entry_for(source); });
  if (!found || found->entry->cubin != entry_for(source).cubin) {
    throw std::runtime_error("no kernel, or another one");
  }
  return found->origin;
}

// The same in a cache that has nothing in memory.
inline cache::Origin fresh_origin_of(const std::string& directory,
                                     const std::string& source = "a") {
  cache::Cache cache(directory);
  return origin_of(cache, source);
}

}  // namespace kda::test
