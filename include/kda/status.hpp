// What a call came to: a Code for programs, a sentence for people.
//
//   kda::Result<kda::Plan> plan = kda::Plan::make(problem);
//   if (!plan) std::fputs(plan.status().message().c_str(), stderr);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kda {

enum class Code : std::int32_t {
  ok = 0,
  invalid_argument,  // a run's tensors or sizes, or an option, contradict the plan; nothing was
                     // launched
  invalid_problem,   // the Problem contradicts itself (say HV not a multiple of H)
  unsupported,       // consistent, but no strategy covers it on this device, or the plan is one
                     // for Options::target and does not run, or a C struct sets a newer field
  no_wisdom,         // Effort::wisdom_only, and no record fits
  compile_failed,    // NVRTC is missing or refused; message() carries its log
  device_error,  // the CUDA driver is missing or refused; message() carries its name for the error;
                 // or the host did, memory say: "the host refused ..."
};

// The code's own name, as written above.
const char* name_of(Code code) noexcept;

// Cheap to copy; an ok Status owns nothing.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  bool ok() const noexcept { return code_ == Code::ok; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return code_; }
  // Names the field, its value, the limit and what would do; empty when ok().
  const std::string& message() const noexcept;

 private:
  Code code_ = Code::ok;
  std::shared_ptr<const std::string> message_;
};

// A T, or the Status that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }

  // Only when the Result holds a value.
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return std::move(*value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace kda
