#include "base/no_memory.hpp"

namespace kda::base {
namespace {

// Leaked: usable during exit.
const Status* const made_at_load = new Status(Code::device_error, "the host refused memory");

}  // namespace

const Status& no_memory() noexcept { return *made_at_load; }

}  // namespace kda::base
