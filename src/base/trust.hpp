// Whether a directory's files are ours to believe: who may write them may choose what runs.
#pragma once

#include <string>

namespace kda::base {

// Why not, and what would do; empty where they are: the directory does not exist yet, or belongs to
// this user or to root and nobody else may write it.  KDA_CACHE_TRUST_SHARED=1 trusts any.
// path: the variable whose directories are read only, whoever owns them.
std::string distrust(const std::string& directory, const char* path = "KDA_CACHE_PATH");

// Whether a file of this user may be believed where the directory may, and one that others may
// write.
bool trusts_owner(unsigned user);
bool trusts_others();

}  // namespace kda::base
