#include "cli/build_info.hpp"

// Both come from tools/CMakeLists.txt; this is the only file that a new commit recompiles.
namespace kda::cli {

const char* version() noexcept { return KDA_VERSION; }
const char* commit() noexcept { return KDA_COMMIT; }

}  // namespace kda::cli
