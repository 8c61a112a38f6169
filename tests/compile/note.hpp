// A toolchain's note as compile/toolchain writes it, for tests that plant another.
#pragma once

#include <string>

#include "base/digest.hpp"

namespace kda::test {

// The settings of its first line.
inline std::string settings_of_note(const std::string& note) {
  const std::size_t begin = note.find(' ') + 1;
  return note.substr(begin, note.find('\n') - begin);
}

inline std::string note_of(const std::string& settings) {
  return base::digest(settings) + " " + settings + "\n";
}

}  // namespace kda::test
