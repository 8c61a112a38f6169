// Compiled kernels that come with a program: made by `kda-tune bundle create`, on a machine that
// needs no GPU, and found by every Plan::make before a compiler is asked for.
//
// As a file, a bundle is named in KDA_CACHE_PATH.  Linked into a program, by kda_link_bundle(app
// kernels.kdab) in CMake, it is there by itself; this call is for bytes that come another way.
#pragma once

#include <cstddef>
#include <span>

#include "kda/status.hpp"

namespace kda {

// The bytes must stay unchanged until the process ends; they may be added twice.  Fails with
// invalid_argument, saying what is wrong, where they are no bundle or its index is damaged; with
// device_error where the host refuses memory.  Any thread, at any time, before main too; plans made
// from then on look there.
Status add_bundle(std::span<const std::byte> bundle);

}  // namespace kda
