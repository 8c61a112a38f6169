// Device memory for what is enqueued next on a stream, from a pool of our own for each device.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <utility>

#include "kda/status.hpp"

namespace kda::launch {

class StreamMemory {
 public:
  // Bytes between calls that the pool keeps rather than gives back to the device.
  static constexpr std::size_t kKept = std::size_t{1} << 30;

  // Enqueues the allocation; inside a capture it becomes a node of the graph.  Fails with
  // device_error.  No bytes: no memory, and nothing is enqueued.
  static Result<StreamMemory> take(int ordinal, std::size_t bytes, CUstream stream);

  StreamMemory(StreamMemory&& other) noexcept
      : at_(std::exchange(other.at_, 0)), stream_(other.stream_) {}
  StreamMemory& operator=(StreamMemory&&) = delete;
  // Enqueues the release, behind all that was enqueued so far.
  ~StreamMemory();

  void* data() const noexcept { return reinterpret_cast<void*>(at_); }

 private:
  StreamMemory(CUdeviceptr at, CUstream stream) : at_(at), stream_(stream) {}

  CUdeviceptr at_;
  CUstream stream_;
};

}  // namespace kda::launch
