#include "api/last_message.hpp"

namespace kda::api {

namespace {

// A Status shares its text, so that keeping one neither copies nor throws.
thread_local Status last;

}  // namespace

kda_code report(const Status& status) noexcept {
  if (!status.ok()) last = status;
  return static_cast<kda_code>(status.code());
}

}  // namespace kda::api

extern "C" {

const char* kda_last_message() { return kda::api::last.message().c_str(); }

const char* kda_code_name(std::int32_t code) { return kda::name_of(static_cast<kda::Code>(code)); }

}  // extern "C"
