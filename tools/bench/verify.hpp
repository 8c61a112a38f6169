// Whether a variant is right: its outputs on a few heads against the fp64 recurrence, and every
// element of every head written and finite.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/recurrence.hpp"
#include "reference/tensors.hpp"

namespace kda::bench {

struct Verdict {
  bool right = false;
  double o_error = 0, state_error = 0;  // rel-L2, the worst of the heads
  std::string why;                      // of a wrong one
};

class Verifier {
 public:
  // Computes the truth of the heads, whole sequences.  tensors must outlive it.
  Verifier(const reference::Tensors& tensors, std::vector<int> heads);

  // o and final_state as the device wrote them.
  Verdict judge(const reference::Bytes& o, const reference::Bytes& final_state);

 private:
  const reference::Outputs& allowed();

  const reference::Tensors& tensors_;
  std::vector<int> heads_;
  reference::Inputs inputs_;
  reference::Outputs truth_;
  // The recurrence with rounded operands; only computed where the stated bound is exceeded.
  std::optional<reference::Outputs> rounded_;
};

// `count` heads spread over all of them, the first and the last among them.
std::vector<int> spread_heads(int value_heads, int count);

}  // namespace kda::bench
