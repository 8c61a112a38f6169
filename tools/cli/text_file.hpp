// Where a tool's results go.
#pragma once

#include <cstdio>
#include <string>

namespace kda::cli {

// Writes text to the file, or to `out` when path is "-".  A plain file appears whole or not at all,
// unless nothing can take its place (its folder is not to be written, it is mounted by itself);
// what else stands there (a device, a pipe) or is open already (/dev/stdout, /dev/fd/3) is written
// to, and a link's target in its stead.  Fails (cli/failure.hpp) with kBadCommand where the path
// cannot be opened, with kFailed where not all could be written.
void write_text(const std::string& path, const std::string& text, std::FILE* out);

// Fails as it would where the path cannot be opened: asked before minutes of work.  Leaves nothing;
// an empty path is none.
void check_writable(const std::string& path);

}  // namespace kda::cli
