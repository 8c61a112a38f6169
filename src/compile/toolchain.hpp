// Which compiler would run, known without opening it where a note on disk still holds.
#pragma once

#include <string>

#include "base/env.hpp"
#include "kda/status.hpp"

namespace kda::compile {

struct Toolchain {
  std::string path;
  int major = 0, minor = 0;
  std::string build;  // "CL-36424714 V13.0.88": which build of that release (probe.hpp)
};

// Once a process; only success is remembered.  Opening NVRTC costs 5 ms from memory and 130 ms from
// disk, which a start with every kernel cached can save.
Result<Toolchain> toolchain();

// Where the library is not open yet and its files have changed since the note that toolchain()
// believed, or gone: the next toolchain() looks again.
void forget_replaced_toolchain();

// Where what toolchain() says is of a note, and does not open: the next toolchain() believes none.
// False where this process opened it.
bool forget_noted_toolchain();

// Keeps the note in this directory (empty: nowhere), as the mode says, instead of where the
// environment says.  Before the first toolchain().
void keep_toolchain_note_in(const std::string& directory, base::env::CacheMode mode);

}  // namespace kda::compile
