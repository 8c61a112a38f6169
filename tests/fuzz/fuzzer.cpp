// libFuzzer's entry: one program a target, named by KDA_FUZZ_TARGET.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  kda::fuzz::KDA_FUZZ_TARGET({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
