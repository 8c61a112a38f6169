// The structs of kda.h to those of kda.hpp and back.
#pragma once

#include <cstddef>

#include "kda/kda.h"
#include "kda/kda.hpp"

namespace kda::api {

// Fails where struct_size is not one that a kda.h had, a field is newer than this library, or a
// truth value or enum is none.  A null `from` is the default.
Status to_cpp(const kda_problem* from, Problem& to);
Status to_cpp(const kda_options* from, Options& to);
Status to_cpp(const kda_forward* from, Forward& to);

// As much as fits into to->struct_size bytes; the rest becomes zero.
Status to_c(const Problem& from, kda_problem* to);

// The defaults, into struct_size bytes.
void init(kda_problem* to, std::size_t struct_size) noexcept;
void init(kda_options* to, std::size_t struct_size) noexcept;
void init(kda_forward* to, std::size_t struct_size) noexcept;

}  // namespace kda::api
