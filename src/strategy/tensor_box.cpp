#include "strategy/tensor_box.hpp"

#include <array>
#include <cstddef>

namespace kda::strategy {
namespace {

constexpr std::int64_t kElement = 2;  // bytes
constexpr std::int64_t kUnit = 16;    // bytes

}  // namespace

std::optional<TensorBox> box_of(const abi::Tensor& tensor, const Extent& extent, const Slabs& slabs,
                                int tokens) {
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % kUnit != 0) return std::nullopt;
  const std::array<std::int64_t, 5> sizes = {slabs.channels, extent.tokens,
                                             extent.channels / slabs.channels, extent.heads,
                                             extent.sequences};
  const std::array<std::int64_t, 4> strides = {tensor.token, slabs.channels, tensor.head,
                                               tensor.sequence};
  TensorBox made{
      .data = tensor.data,
      .box = {static_cast<std::uint32_t>(slabs.channels), static_cast<std::uint32_t>(tokens),
              static_cast<std::uint32_t>(slabs.count), 1, 1}};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || sizes[i] >= std::int64_t{1} << 31) return std::nullopt;
    made.sizes[i] = static_cast<std::uint64_t>(sizes[i]);
  }
  for (std::size_t i = 0; i < strides.size(); ++i) {
    // Of a dimension of one, which is never taken.
    const std::int64_t bytes = sizes[i + 1] == 1 ? kUnit : strides[i] * kElement;
    if (bytes < kUnit || bytes % kUnit != 0 || bytes >= std::int64_t{1} << 40) return std::nullopt;
    made.strides[i] = static_cast<std::uint64_t>(bytes);
  }
  return made;
}

}  // namespace kda::strategy
