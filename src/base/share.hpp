// For whom what the library makes is: this user alone; or, where they share their caches
// (KDA_CACHE_TRUST_SHARED=1: base/trust), whom the directory is for that it is made in.  Nothing is
// shared in a sticky one such as /tmp.
#pragma once

#include <string>

namespace kda::base {

// Of a new file that was opened for this user alone, and of a new directory.  What cannot be shared
// stays as it is.
void share_file(int descriptor, const std::string& path);
void share_directory(const std::string& path);

}  // namespace kda::base
