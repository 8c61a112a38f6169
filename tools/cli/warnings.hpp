// What the library warns of.
#pragma once

namespace kda::cli {

// Lets it go to stderr, that kernels are not kept as the cache cannot be written, say, unless
// KDA_LOG says what does: the library by itself is silent.
void show_warnings();

}  // namespace kda::cli
