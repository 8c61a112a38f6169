// One kernel onto a stream: the hot path.
#pragma once

#include <cstddef>

#include "kda/status.hpp"
#include "launch/module.hpp"

struct CUstream_st;

namespace kda::launch {

struct Geometry {
  unsigned grid[3] = {0, 1, 1};
  unsigned threads = 0;
  std::size_t shared_bytes = 0;    // dynamic
  unsigned cluster = 1;            // CTAs a cluster, along x
  bool overlaps_previous = false;  // programmatic dependent launch on the kernel before
};

// args: the kernel's one by-value parameter.  Neither allocates nor reads the environment.
Status enqueue(const Module& module, const Geometry& geometry, const void* args,
               CUstream_st* stream);

}  // namespace kda::launch
