// Entries that no compiler made.
#pragma once

#include <string>

#include "cache/cache.hpp"

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
                        .compile_milliseconds = 12.5}};
}

}  // namespace kda::test
