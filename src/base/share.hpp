// For whom what the library makes is: this user alone; or, where they share their caches
// (KDA_CACHE_TRUST_SHARED=1: base/trust), whom the directory is for that it is made in.  Nothing is
// shared in a sticky one such as /tmp.
#pragma once

#include <string>

namespace kda::base {

// What is made at that path is to be shared with, as a mode; 0: with nobody.  Asks the environment,
// whose complaints take a lock: not while one is held.
unsigned share_mode(const std::string& path);

// Shares a file, or a directory at its path, that is this user's and for this user alone, as what
// is made anew is; anything else stays as it is.
void share_file(int descriptor, unsigned mode);
void share_directory(const std::string& path, unsigned mode);

}  // namespace kda::base
