// Which build of kda this is: what every row of results carries.
#pragma once

namespace kda::cli {

const char* version() noexcept;  // "0.1.0"
const char* commit() noexcept;   // git describe at configure time, or "unknown"

}  // namespace kda::cli
