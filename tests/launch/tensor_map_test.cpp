#include "launch/tensor_map.hpp"

#include <cstring>

#include "support/catch.hpp"
#include "support/fake_driver.hpp"

namespace launch = kda::launch;
using kda::Code;
using kda::TensorBox;
using kda::test::contains;
using kda::test::FakeDriver;

namespace {

// 300 tokens of 3 heads of 128 channels in slabs.
TensorBox box_of(std::uint32_t channels) {
  const std::uint64_t bytes = channels * 2;
  return {.data = reinterpret_cast<const void*>(0x1000),
          .sizes = {channels, 300, 128 / channels, 3, 2},
          .strides = {768, bytes, 256, 230400},
          .box = {channels, 32, 1, 1, 1}};
}

struct alignas(64) Map {
  std::byte bytes[launch::kTensorMapBytes] = {};
};

}  // namespace

TEST_CASE("a map is of 16-bit elements, and exchanges the units of its rows as tiles do") {
  FakeDriver fake;
  Map map;
  for (const auto& [channels, swizzle] :
       {std::pair{16U, CU_TENSOR_MAP_SWIZZLE_32B}, std::pair{32U, CU_TENSOR_MAP_SWIZZLE_64B},
        std::pair{64U, CU_TENSOR_MAP_SWIZZLE_128B}}) {
    INFO(channels);
    const TensorBox box = box_of(channels);
    REQUIRE(launch::encode(box, map.bytes));
    const FakeDriver::TensorMap& asked = fake.tensor_maps.back();
    CHECK(asked.type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    CHECK(asked.data == box.data);
    CHECK(asked.sizes == std::vector<cuuint64_t>(box.sizes.begin(), box.sizes.end()));
    CHECK(asked.strides == std::vector<cuuint64_t>(box.strides.begin(), box.strides.end()));
    CHECK(asked.box == std::vector<cuuint32_t>(box.box.begin(), box.box.end()));
    CHECK(asked.swizzle == swizzle);
    for (const std::byte byte : map.bytes) CHECK(byte == std::byte(fake.tensor_maps.size()));
  }
}

TEST_CASE("a map that the driver refuses is a device_error, and nothing is written") {
  FakeDriver fake;
  fake.encode_result = CUDA_ERROR_INVALID_VALUE;
  Map map;
  const auto status = launch::encode(box_of(32), map.bytes);
  CHECK(status.code() == Code::device_error);
  CHECK_THAT(status.message(), contains("cuTensorMapEncodeTiled: CUDA_ERROR_OTHER"));
  for (const std::byte byte : map.bytes) CHECK(byte == std::byte(0));
}
