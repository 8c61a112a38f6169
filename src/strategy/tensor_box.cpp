#include "strategy/tensor_box.hpp"

#include <array>
#include <cstddef>

#include "abi/state_box.h"

namespace kda::strategy {
namespace {

constexpr std::int64_t kElement = 2;  // bytes
constexpr std::int64_t kUnit = 16;    // bytes

// Where the copy engine takes it.  Strides are of elements of so many bytes.
std::optional<TensorBox> made_of(const void* data, const std::array<std::int64_t, 5>& sizes,
                                 const std::array<std::int64_t, 4>& strides, std::int64_t element,
                                 const std::array<std::uint32_t, 5>& box) {
  if (reinterpret_cast<std::uintptr_t>(data) % kUnit != 0) return std::nullopt;
  TensorBox made{.data = data, .sizes = {}, .strides = {}, .box = box};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || sizes[i] >= std::int64_t{1} << 31) return std::nullopt;
    made.sizes[i] = static_cast<std::uint64_t>(sizes[i]);
  }
  for (std::size_t i = 0; i < strides.size(); ++i) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;  // bytes, not to be reached
    if (sizes[i + 1] == 1) {                               // never taken, and may be anything
      made.strides[i] = kUnit;
      continue;
    }
    if (strides[i] <= 0 || strides[i] >= kMost / element) return std::nullopt;
    const std::int64_t bytes = strides[i] * element;
    if (bytes % kUnit != 0) return std::nullopt;
    made.strides[i] = static_cast<std::uint64_t>(bytes);
  }
  return made;
}

}  // namespace

std::optional<TensorBox> box_of(const abi::Tensor& tensor, const Extent& extent, const Slabs& slabs,
                                int tokens) {
  return made_of(tensor.data,
                 {slabs.channels, extent.tokens, extent.channels / slabs.channels, extent.heads,
                  extent.sequences},
                 {tensor.token, slabs.channels, tensor.head, tensor.sequence}, kElement,
                 {static_cast<std::uint32_t>(slabs.channels), static_cast<std::uint32_t>(tokens),
                  static_cast<std::uint32_t>(slabs.count), 1, 1});
}

Extent extent_of(const Problem& problem, const abi::Inputs& in, int heads, int channels) {
  return {.channels = channels,
          .heads = heads,
          .tokens = problem.varlen ? in.tokens : in.length,
          .sequences = problem.varlen ? 1 : in.sequences};
}

std::optional<RowBoxes> boxes_of_rows(const Problem& problem, const abi::Inputs& in,
                                      const abi::Outputs& out, int tokens) {
  const Extent extent = extent_of(problem, in, problem.value_heads, problem.value_dim);
  constexpr Slabs kColumns = {.channels = 64, .count = 1};
  const std::optional<TensorBox> v = box_of(in.v, extent, kColumns, tokens);
  const std::optional<TensorBox> o = box_of(out.o, extent, kColumns, tokens);
  if (!v || !o) return std::nullopt;
  return RowBoxes{*v, *o};
}

std::optional<TensorBox> box_of_states(const abi::Shape& shape, const abi::Inputs& in,
                                       const abi::Outputs& out) {
  namespace box = abi::state_box;
  if (!shape.state_pool || !box::serves(shape) || shape.value_dim % box::rows != 0) {
    return std::nullopt;
  }
  const std::int64_t element = abi::bytes_of(shape.state_type);
  const int beside = box::beside(shape);
  const std::int64_t line = box::line / element;
  constexpr int kWords = box::line / static_cast<int>(kElement);
  return made_of(out.final_state,
                 {kWords, beside, std::int64_t{in.value_heads} * shape.value_dim, box::parts(shape),
                  out.pool.slots},
                 {line, shape.key_dim, beside * line, out.pool.stride}, element,
                 {kWords, static_cast<std::uint32_t>(beside), box::rows,
                  static_cast<std::uint32_t>(box::parts(shape)), 1});
}

}  // namespace kda::strategy
