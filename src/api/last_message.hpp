// Why the last C call on this thread failed.
#pragma once

#include <utility>

#include "base/no_memory.hpp"
#include "kda/kda.h"
#include "kda/status.hpp"

namespace kda::api {

// Keeps the message of a failure for kda_last_message; a success leaves the last one.
kda_code report(const Status& status) noexcept;

// Empty before the first one, and where the thread is ending.
const char* last_message() noexcept;

// Nothing leaves the library: what `call`, which returns a kda_code, throws is reported.
template <class Call>
kda_code guarded(Call&& call) noexcept {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    return report(base::no_memory());
  }
}

}  // namespace kda::api
