// How many fields an aggregate has, so that a list of them can be held complete.
#pragma once

#include <cstddef>
#include <utility>

namespace kda::api {

struct AnyValue {
  template <class T>
  operator T() const noexcept;  // NOLINT(google-explicit-constructor): only in unevaluated code
};

// An aggregate takes as many initialisers as it has fields, and not one more.
template <class Aggregate, class... Values>
consteval std::size_t field_count() {
  if constexpr (requires { Aggregate{Values{}..., AnyValue{}}; }) {
    return field_count<Aggregate, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

}  // namespace kda::api
