#include "api/last_message.hpp"

namespace kda::api {

namespace {

// Calls may come after a thread's variables have been destroyed, the main one's before what exit()
// runs: that it is so stays readable.
thread_local bool is_gone = false;

// A Status shares its text, so that keeping one neither copies nor throws.
struct Last {
  Status status;
  ~Last() { is_gone = true; }
};
thread_local Last last;

}  // namespace

kda_code report(const Status& status) noexcept {
  if (!status.ok() && !is_gone) last.status = status;
  return static_cast<kda_code>(status.code());
}

const char* last_message() noexcept { return is_gone ? "" : last.status.message().c_str(); }

}  // namespace kda::api

extern "C" {

const char* kda_last_message() { return kda::api::last_message(); }

const char* kda_code_name(std::int32_t code) { return kda::name_of(static_cast<kda::Code>(code)); }

}  // extern "C"
