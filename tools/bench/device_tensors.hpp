// A problem's tensors on the device, in several sets that calls take in turn: so many that no call
// finds its inputs in the L2.
#pragma once

#include <vector>

#include "kda/kda.hpp"
#include "measure/gpu.hpp"
#include "reference/pooled.hpp"
#include "reference/tensors.hpp"

namespace kda::bench {

using measure::Buffer;
using measure::Gpu;

class DeviceTensors {
 public:
  // Uploads once and copies on the device; host must outlive it.  Throws Failure where the memory
  // does not suffice.
  DeviceTensors(const Gpu& gpu, const reference::Tensors& host, bool head_major = false);

  int sets() const { return static_cast<int>(sets_.size()); }
  Forward forward(int set) const;

  // Replaces every set's dt_bias: all that the gate regimes of one case differ by.
  void set_dt_bias(const std::vector<float>& dt_bias);

  // NaN, whatever the dtype, all over o and final_state of set 0; a pool is as it was at first.
  void poison_outputs();
  void download_outputs(reference::Bytes& o, reference::Bytes& final_state) const;

 private:
  struct Set {
    Buffer q, k, v, g, beta, A_log, dt_bias, cu_seqlens;
    Buffer initial_state;  // or the pool, which is final_state too
    Buffer o, final_state, w, u;
  };

  StatePool state_pool() const;
  // [N, T / N, heads, *] as the device has it, and back.
  reference::Bytes laid_out(const reference::Bytes& host, int heads) const;
  reference::Bytes as_host_has(const reference::Bytes& device, int heads) const;
  Strides strides(int heads, int channels) const;

  const reference::Tensors& host_;
  Problem problem_;
  bool head_major_;
  int sequences_ = 0;
  std::vector<Set> sets_;
  reference::Slots slots_;        // of a pool, the same for every set
  Buffer indices_, checkpoints_;  // of those
  Buffer pool_at_first_;
  Buffer committed_tokens_;  // the same for every set
};

}  // namespace kda::bench
