// What a strategy makes of a problem: the kernels to build and how each call launches them.
// Plain data; it knows neither NVRTC nor the driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/tensor_box.hpp"
#include "kda/kda.hpp"
#include "tunable/space.hpp"

namespace kda::compose {

// One call of Plan::run as a stage's bind sees it: checked, defaults and strides filled in.
struct Run {
  const Forward& forward;
  std::byte* workspace;
};

// What bind decides for that call.
struct Launch {
  static constexpr std::size_t kMaxArgs = 2048;

  unsigned grid[3] = {0, 1, 1};  // grid[0] = 0: nothing to launch
  alignas(128) std::byte args[kMaxArgs];
  std::size_t args_bytes = 0;

  // Tensors whose maps (abi/tensor_map.h) are to be written into args before they are launched.
  struct Map {
    std::size_t at;  // bytes
    TensorBox tensor;
  };
  static constexpr std::size_t kMaxMaps = 6;
  std::array<Map, kMaxMaps> maps;  // the first map_count
  std::size_t map_count = 0;

  template <class Args>
  void set(const Args& value) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxArgs);
    std::memcpy(args, &value, sizeof value);
    args_bytes = sizeof value;
  }
  void add_map(std::size_t at, const TensorBox& tensor) { maps[map_count++] = {at, tensor}; }
};

struct Stage {
  std::string name;     // "prepare"
  std::string file;     // "chunk/prepare.cu", looked up in the family's folder, then its fallback
  std::string entry;    // "kda_chunk_prepare", extern "C"; takes one Args by value
  std::string prelude;  // "#define KDA_SHAPE {...}\n#define KDA_TUNING {...}\n"
  // The prelude by which it has more registers, and is launched alike, once so many (1, ...) have
  // spilt; empty: there is none.  Null where there never is.
  std::function<std::string(int spilt)> roomier;
  unsigned threads = 0;
  std::size_t shared_bytes = 0;  // dynamic
  unsigned cluster = 1;          // CTAs a cluster, along x
  // Programmatic dependent launch on the stage before, of a first stage on what came before the
  // run: the kernel waits for that where it must.
  bool overlaps_previous = false;
  std::function<void(const Run&, Launch&)>
      bind;  // must not throw, allocate or read the environment
};

struct Recipe {
  std::string strategy;
  tunable::Values tuning;
  std::vector<Stage> stages;
  std::size_t workspace_bytes = 0;
};

// A line a fact, for people and golden files.
std::string to_text(const Recipe& recipe);

}  // namespace kda::compose
