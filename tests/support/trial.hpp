// One run to try: a problem, its sequences, its inputs, and how its tensors lie in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kda/kda.hpp"
#include "reference/error.hpp"
#include "reference/inputs.hpp"
#include "reference/recurrence.hpp"
#include "reference/tensors.hpp"

namespace kda::test {

enum class Layout {
  contiguous,   // strides left at zero
  heads_first,  // [B, H, T, K]
  sliced,       // rows of a token are a slice of wider ones, as in a packed qkv buffer
  gapped,       // odd gaps after every head, token and sequence
};
const char* name_of(Layout layout);

struct Trial {
  Problem problem;                    // max_tokens, max_sequences and varlen are set by complete()
  std::vector<std::int64_t> lengths;  // of the sequences; dense problems: all equal
  std::int64_t tail = 0;              // tokens after the last sequence, NaN; varlen only
  reference::InputSpec inputs;
  Layout layout = Layout::contiguous;
  int misaligned = 0;                    // elements past 256 bytes that every base lies
  int misaligned_o = 0;                  // so many more that of o does
  bool in_place_state = false;           // final_state is initial_state's memory
  std::vector<std::int64_t> cu_seqlens;  // what the device gets instead; then nothing is compared
  // Times what reference/error.hpp allows, where that is not held.
  double o_allowance = 1, state_allowance = 1;

  std::int64_t tokens() const;
};

// The problem with its sizes and defaults.  Throws where it is not legal.
Trial complete(Trial trial);

// One line, for the report of a failure.
std::string to_text(const Trial& trial);

// A trial's inputs and what should come out, the costly parts computed when first asked for.
class Truth {
 public:
  explicit Truth(const Trial& trial);

  const reference::Tensors& tensors() const { return tensors_; }
  const reference::Outputs& outputs();
  // Of a run whose arithmetic rounds its operands: the error that hard inputs excuse.
  const reference::Errors& rounded_errors();

  // Empty where x is close enough to the truth; else by how much it is not.
  std::string judge(const reference::Outputs& x);
  // Of the last judged: error over what is allowed, the larger of o and state.
  double last_ratio() const { return last_ratio_; }
  const reference::Errors& last_errors() const { return last_; }

 private:
  const reference::Inputs& inputs();

  reference::Tensors tensors_;
  std::optional<reference::Inputs> inputs_;
  std::optional<reference::Outputs> outputs_;
  std::optional<reference::Errors> rounded_;
  double o_allowance_ = 1, state_allowance_ = 1;
  reference::Errors last_;
  double last_ratio_ = 0;
};

}  // namespace kda::test
