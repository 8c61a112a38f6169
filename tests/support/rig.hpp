// A trial on the device: its tensors as the trial lays them out, poisoned outputs, canaries around
// everything.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kda/kda.hpp"
#include "reference/recurrence.hpp"
#include "support/device_memory.hpp"
#include "support/trial.hpp"

namespace kda::test {

// Where a tensor's elements lie, in elements from its base.
struct Placement {
  std::int64_t tokens = 0, row_tokens = 1;  // of the tensor, and of one sequence when dense
  int heads = 0, channels = 0;
  Strides strides;
  std::int64_t extent = 0;  // elements from the base to the end

  std::int64_t at(std::int64_t token, int head, int channel) const {
    return token / row_tokens * strides.sequence + token % row_tokens * strides.token +
           head * strides.head + channel;
  }
};
Placement place(const Trial& trial, int heads, int channels);

class Rig {
 public:
  Rig(const Gpu& gpu, const Trial& trial, const reference::Tensors& tensors);

  const Forward& forward() const { return forward_; }
  const Gpu& gpu() const { return gpu_; }

  // Poisons the outputs (and gives an in-place state its input again).
  void reset();

  // What Plan::run is: so that a test of this very rig can stand in for a plan.
  using Run = std::function<Status(const Forward&, void*, std::size_t, Stream)>;
  // Resets, then runs with a poisoned workspace and waits.  A refusal, a fault on the device, or
  // damage outside the outputs comes back in words; empty: fine so far.
  std::string run(const Plan& plan);
  std::string run(const Run& run, std::size_t workspace_bytes);

  // Canaries, gaps and tokens past the last sequence: empty, or what was written there.
  std::string damage() const;
  reference::Outputs outputs() const;
  // The bits of o and final_state.
  std::vector<std::byte> output_bits() const;

 private:
  struct Named {
    const char* name;
    DeviceMemory memory;
  };
  void* input(const char* name, DType type, const Placement& placement,
              const reference::Bytes& values);
  void* raw(const char* name, const void* data, std::size_t bytes, std::size_t element);
  std::string written_outside(const std::vector<std::byte>& o) const;

  const Gpu& gpu_;
  const Trial trial_;
  const reference::Tensors& tensors_;
  std::vector<Named> inputs_;
  Placement o_place_;
  DeviceMemory o_, initial_state_, final_state_;
  Forward forward_;
};

}  // namespace kda::test
