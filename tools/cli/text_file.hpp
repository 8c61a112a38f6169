// Where a tool's results go.
#pragma once

#include <cstdio>
#include <string>

namespace kda::cli {

// Writes text to the file, or to `out` when path is "-".  A plain file appears whole or not at all,
// unless nothing can take its place (its folder is not to be written, it is mounted by itself, it
// has other names or another owner); its mode stays.  What else stands there (a device, a pipe) or
// is open already (/dev/stdout, /dev/fd/3) is written to, and a link's target in its stead.  Fails
// (cli/failure.hpp) with kBadCommand where the path cannot be opened, with kFailed where not all
// could be written.
void write_text(const std::string& path, const std::string& text, std::FILE* out);

// Fails as it would where the path cannot be opened: asked before minutes of work.  Leaves nothing;
// an empty path is none.
void check_writable(const std::string& path);

bool is_stdout(const std::string& path);  // "-" or /dev/stdout
// Whether what is written to one is lost in the other, there yet or not; of /dev/null nothing is.
bool is_same_file(const std::string& one, const std::string& other);

}  // namespace kda::cli
