// Which build of NVRTC a library is, by what it compiles.
#pragma once

#include <string>
#include <string_view>

#include "compile/library.hpp"

namespace kda::compile {

// Compiles an empty program and reads how its PTX is signed; empty where it does not compile or is
// not signed.
std::string probe(const Nvrtc& nvrtc);

// "CL-36424714 V13.0.88" from the comment that opens NVRTC's PTX; empty when there is none.  All of
// 13.2 call their build UNKNOWN; there the release says which it is ("UNKNOWN V13.2.86").
std::string parse_build(std::string_view ptx);

}  // namespace kda::compile
