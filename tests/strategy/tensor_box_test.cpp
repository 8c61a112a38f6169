#include "strategy/tensor_box.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "problem/shape.hpp"
#include "support/catch.hpp"
#include "support/words.hpp"

using kda::TensorBox;
using kda::strategy::box_of;
using kda::strategy::box_of_states;
using kda::strategy::boxes_of_rows;
using kda::strategy::Extent;
using kda::strategy::Slabs;

namespace {

using Sizes = std::array<std::uint64_t, 5>;
using Strides = std::array<std::uint64_t, 4>;
using Box = std::array<std::uint32_t, 5>;

constexpr Extent kExtent = {.channels = 128, .heads = 3, .tokens = 300, .sequences = 2};
constexpr Slabs kSlabs = {.channels = 32, .count = 4};

// [2, 300, 3, 128], rows side by side.
kda::abi::Tensor tensor() {
  return {
      .data = reinterpret_cast<const void*>(0x1000), .sequence = 115200, .token = 384, .head = 128};
}

}  // namespace

TEST_CASE("a box is of slabs and tokens of a sequence and head, strides in bytes") {
  const auto box = box_of(tensor(), kExtent, kSlabs, 32);
  REQUIRE(box);
  CHECK(box->data == tensor().data);
  CHECK(box->sizes == Sizes{32, 300, 4, 3, 2});
  CHECK(box->strides == Strides{768, 64, 256, 230400});
  CHECK(box->box == Box{32, 32, 4, 1, 1});
}

TEST_CASE("rows that are not apart, or not on 16 bytes, are no boxes") {
  const auto without = [](auto&& change) {
    kda::abi::Tensor odd = tensor();
    change(odd);
    return !box_of(odd, kExtent, kSlabs, 32);
  };
  CHECK(without([](auto& t) { t.data = reinterpret_cast<const void*>(0x1008); }));
  CHECK(without([](auto& t) { t.token = 388; }));
  CHECK(without([](auto& t) { t.head = 130; }));
  CHECK(without([](auto& t) { t.sequence = 115201; }));
  CHECK(without([](auto& t) { t.head = 0; }));
  CHECK(without([](auto& t) { t.token = -384; }));
  CHECK(without([](auto& t) { t.sequence = std::int64_t{1} << 39; }));
  CHECK_FALSE(without([](auto& t) { t.token = 392; }));
}

TEST_CASE("v and o of a run have boxes of 64 columns, both or none") {
  const kda::Problem problem = kda::test::problem_in_words("T=600 N=2 H=3 K=128 V=128");
  kda::abi::Inputs in;
  in.length = 300;
  in.sequences = 2;
  in.v = tensor();
  kda::abi::Outputs out;
  out.o = tensor();
  const auto rows = boxes_of_rows(problem, in, out, 16);
  REQUIRE(rows);
  CHECK(rows->v.sizes == Sizes{64, 300, 2, 3, 2});
  CHECK(rows->o.box == Box{64, 16, 1, 1, 1});
  in.v.data = reinterpret_cast<const void*>(0x1002);
  CHECK_FALSE(boxes_of_rows(problem, in, out, 16));
  in.v = tensor();
  out.o.token = 385;
  CHECK_FALSE(boxes_of_rows(problem, in, out, 16));
}

TEST_CASE("the stride of a dimension of one does not matter") {
  kda::abi::Tensor one = tensor();
  one.sequence = 0;
  one.head = 7;
  const auto box =
      box_of(one, {.channels = 128, .heads = 1, .tokens = 300, .sequences = 1}, kSlabs, 32);
  REQUIRE(box);
  CHECK(box->strides[0] == 768);
  for (const std::size_t i : {2, 3}) CHECK(box->strides[i] % 16 == 0);
  // Nor is it made bytes of, which would be past what 64 bits hold (for UBSan to see).
  one.sequence = std::numeric_limits<std::int64_t>::max();
  CHECK(box_of(one, {.channels = 128, .heads = 1, .tokens = 300, .sequences = 1}, kSlabs, 32));
}

TEST_CASE("more tokens than 31 bits count, or none, are no box") {
  Extent extent = kExtent;
  extent.sequences = 1;
  extent.tokens = std::int64_t{1} << 31;
  CHECK_FALSE(box_of(tensor(), extent, kSlabs, 32));
  extent.tokens = 0;
  CHECK_FALSE(box_of(tensor(), extent, kSlabs, 32));
  extent.tokens = (std::int64_t{1} << 31) - 1;
  CHECK(box_of(tensor(), extent, kSlabs, 32));
}

namespace {

// A pool of nine slots, and gaps of 64 elements between them.
struct States {
  kda::abi::Shape shape;
  kda::abi::Inputs in;
  kda::abi::Outputs out;

  explicit States(const std::string& words)
      : shape(kda::problem::shape_of(
            kda::test::problem_in_words("pool=1 ht=1 checkpoint=64 H=3 " + words))) {
    in.value_heads = 3;
    out.final_state = reinterpret_cast<void*>(0x1000);
    out.pool.slots = 9;
    out.pool.stride = 3 * shape.key_dim * shape.value_dim + 64;
  }
  std::optional<TensorBox> box() const { return box_of_states(shape, in, out); }
};

}  // namespace

TEST_CASE("a box of states is of a warp's V columns, in lines of 128 bytes") {
  const auto f32 = States("K=128 V=80").box();
  REQUIRE(f32);
  CHECK(f32->data == reinterpret_cast<const void*>(0x1000));
  // Lines, two side by side, V columns of all heads, and again.
  CHECK(f32->sizes == Sizes{64, 2, 240, 2, 9});
  CHECK(f32->strides == Strides{128, 512, 256, 4 * (3 * 128 * 80 + 64)});
  CHECK(f32->box == Box{64, 2, 16, 2, 1});
  const auto bf16 = States("K=128 V=128 state=bf16").box();
  REQUIRE(bf16);
  CHECK(bf16->sizes == Sizes{64, 1, 384, 2, 9});
  CHECK(bf16->strides[1] == 256);
  CHECK(bf16->strides[2] == 128);
  CHECK(bf16->strides[3] == 2 * (3 * 128 * 128 + 64));
  CHECK(bf16->box == Box{64, 1, 16, 2, 1});
  const auto narrow = States("K=64 V=64").box();
  REQUIRE(narrow);
  CHECK(narrow->sizes == Sizes{64, 2, 192, 1, 9});
}

TEST_CASE("states that no warp's columns or no whole lines make are no boxes") {
  CHECK_FALSE(States("K=128 V=100").box());
  CHECK_FALSE(States("K=96 V=128").box());
  CHECK_FALSE(States("K=128 V=128 layout=key_first").box());
  States odd("K=128 V=128");
  ++odd.out.pool.stride;
  CHECK_FALSE(odd.box());
  odd.out.pool.stride += 3;
  CHECK(odd.box());
  odd.out.final_state = reinterpret_cast<void*>(0x1008);
  CHECK_FALSE(odd.box());
  States lone("K=128 V=128");
  lone.out.pool.slots = 1;
  lone.out.pool.stride = std::numeric_limits<std::int64_t>::max();
  CHECK(lone.box());
  lone.out.pool.slots = 2;
  CHECK_FALSE(lone.box());
}
