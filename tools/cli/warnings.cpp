#include "cli/warnings.hpp"

#include "base/env.hpp"
#include "kda/log.hpp"

namespace kda::cli {

void show_warnings() {
  if (base::env::get("KDA_LOG").empty()) set_log(LogLevel::warn);
}

}  // namespace kda::cli
