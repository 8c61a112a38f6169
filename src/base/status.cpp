#include "kda/status.hpp"

#include "base/lazy.hpp"

namespace kda {

const char* name_of(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::invalid_problem:
      return "invalid_problem";
    case Code::unsupported:
      return "unsupported";
    case Code::no_wisdom:
      return "no_wisdom";
    case Code::compile_failed:
      return "compile_failed";
    case Code::device_error:
      return "device_error";
  }
  return "unknown";
}

const std::string& Status::message() const noexcept {
  static constinit base::Lazy<const std::string> empty;
  return message_ ? *message_ : empty.get();
}

}  // namespace kda
