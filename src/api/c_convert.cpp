#include "api/c_convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#include "api/c_enums.hpp"
#include "api/c_fields.hpp"

namespace kda::api {

namespace {

// A sized struct's words, its list, the bytes of its first release, and what its faults are.
template <class C>
struct Sized;
template <>
struct Sized<kda_problem> {
  using Cpp = Problem;
  static constexpr const char* name = "kda_problem";
  static constexpr auto& fields = kProblemFields;
  static constexpr std::size_t first = offsetof(kda_problem, mixed_lengths) + sizeof(std::int32_t);
  static constexpr Code fault = Code::invalid_problem;
};
template <>
struct Sized<kda_options> {
  using Cpp = Options;
  static constexpr const char* name = "kda_options";
  static constexpr auto& fields = kOptionsFields;
  static constexpr std::size_t first = offsetof(kda_options, tuning) + sizeof(const char*);
  static constexpr Code fault = Code::invalid_argument;
};
template <>
struct Sized<kda_forward> {
  using Cpp = Forward;
  static constexpr const char* name = "kda_forward";
  static constexpr auto& fields = kForwardFields;
  static constexpr std::size_t first = offsetof(kda_forward, pool) + sizeof(kda_state_pool);
  static constexpr Code fault = Code::invalid_argument;
};

template <class Fields, class Visit>
void each(const Fields& fields, Visit&& visit) {
  std::apply([&](const auto&... row) { (visit(row), ...); }, fields);
}

// Whether `from` was a value of the field.
template <class Cpp, class C>
bool assign(Cpp& to, const C& from) {
  if constexpr (std::is_same_v<Cpp, bool>) {
    to = from != 0;
    return from == 0 || from == 1;
  } else if constexpr (std::is_enum_v<Cpp>) {
    static_assert(last_of<Cpp> > 0, "c_enums.hpp lacks an enum");
    to = static_cast<Cpp>(from);
    return from >= 0 && from <= last_of<Cpp>;
  } else if constexpr (std::is_same_v<Cpp, std::string>) {
    to = from == nullptr ? "" : from;
    return true;
  } else if constexpr (std::is_same_v<Cpp, Strides>) {
    each(kStridesFields, [&](const auto& row) { assign(to.*row.cpp, from.*row.c); });
    return true;
  } else if constexpr (std::is_same_v<Cpp, IndexTable>) {
    each(kTableFields, [&](const auto& row) { assign(to.*row.cpp, from.*row.c); });
    return true;
  } else if constexpr (std::is_same_v<Cpp, StatePool>) {
    each(kPoolFields, [&](const auto& row) { assign(to.*row.cpp, from.*row.c); });
    return true;
  } else {
    static_assert(std::is_same_v<Cpp, C>, "kda.h has another type for this field");
    to = from;
    return true;
  }
}

template <class C, class Cpp>
void assign_back(C& to, const Cpp& from) {
  if constexpr (std::is_same_v<Cpp, std::string>) {
    to = nullptr;  // only defaults go this way, and they are empty
  } else if constexpr (std::is_same_v<Cpp, Strides>) {
    each(kStridesFields, [&](const auto& row) { assign_back(to.*row.c, from.*row.cpp); });
  } else if constexpr (std::is_same_v<Cpp, IndexTable>) {
    each(kTableFields, [&](const auto& row) { assign_back(to.*row.c, from.*row.cpp); });
  } else if constexpr (std::is_same_v<Cpp, StatePool>) {
    each(kPoolFields, [&](const auto& row) { assign_back(to.*row.c, from.*row.cpp); });
  } else {
    to = static_cast<C>(from);
  }
}

template <class C>
C filled(const typename Sized<C>::Cpp& from) noexcept {
  C to{};
  to.struct_size = sizeof(C);
  each(Sized<C>::fields, [&](const auto& row) { assign_back(to.*row.c, from.*row.cpp); });
  return to;
}

// What was never filled is not read to wherever it says that it ends.
constexpr std::size_t kMostBytes = 4096;
static_assert(sizeof(kda_problem) < kMostBytes && sizeof(kda_options) < kMostBytes &&
              sizeof(kda_forward) < kMostBytes);

template <class C>
Status check_size(std::size_t size) {
  if (size >= Sized<C>::first && size <= kMostBytes) return {};
  return {Sized<C>::fault,
          fmt::format("{0}.struct_size = {1}; it is {2} here: fill the struct with {0}_init",
                      Sized<C>::name, size, sizeof(C))};
}

// The caller's struct in this library's layout: itself where the sizes agree, else `room`, filled.
template <class C>
Status view(const C* given, C& room, const C*& found) {
  const std::size_t size = given->struct_size;
  found = given;
  if (size == sizeof(C)) return {};
  if (Status status = check_size<C>(size); !status) return status;
  room = filled<C>({});
  std::memcpy(&room, given, std::min(size, sizeof(C)));
  found = &room;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t at = sizeof(C); at < size; ++at) {
    if (bytes[at] == 0) continue;
    return {Code::unsupported,
            fmt::format("{0}.struct_size = {1} and a field past byte {2} is set: this libkda, "
                        "version {3}, knows {2} bytes; use a newer one or leave the field",
                        Sized<C>::name, size, sizeof(C), kda_version())};
  }
  return {};
}

template <class C>
Status convert(const C* from, typename Sized<C>::Cpp& to) {
  if (from == nullptr) return {};
  C room;
  const C* found = nullptr;
  if (Status status = view(from, room, found); !status) return status;
  Status status;
  each(Sized<C>::fields, [&](const auto& row) {
    if (assign(to.*row.cpp, found->*row.c)) [[likely]]
      return;
    using Cpp = std::decay_t<decltype(to.*row.cpp)>;
    if constexpr (std::is_same_v<Cpp, bool> || std::is_enum_v<Cpp>) {
      const int last = std::is_same_v<Cpp, bool> ? 1 : last_of<Cpp>;
      status = Status(Sized<C>::fault,
                      fmt::format("{} = {}; kda.h has 0..{}", row.name, found->*row.c, last));
    }
  });
  return status;
}

// As much as fits; what the caller has beyond it becomes zero.
template <class C>
void put(const typename Sized<C>::Cpp& from, C* to, std::size_t size) noexcept {
  if (to == nullptr) return;
  C whole = filled<C>(from);
  whole.struct_size = size;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &whole, std::min(size, sizeof(C)));
}

}  // namespace

Status to_cpp(const kda_problem* from, Problem& to) { return convert(from, to); }
Status to_cpp(const kda_options* from, Options& to) { return convert(from, to); }
Status to_cpp(const kda_forward* from, Forward& to) { return convert(from, to); }

Status to_c(const Problem& from, kda_problem* to) {
  const std::size_t size = to->struct_size;
  if (Status status = check_size<kda_problem>(size); !status) return status;
  put(from, to, size);
  return {};
}

void init(kda_problem* to, std::size_t struct_size) noexcept { put({}, to, struct_size); }
void init(kda_options* to, std::size_t struct_size) noexcept { put({}, to, struct_size); }
void init(kda_forward* to, std::size_t struct_size) noexcept { put({}, to, struct_size); }

}  // namespace kda::api
