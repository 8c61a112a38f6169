#include "device/device.hpp"
#include "support/catch.hpp"

using kda::device::devices_of;
using kda::device::parse;
using kda::test::contains;

TEST_CASE("devices are known by name, however it is written") {
  for (const char* name : {"h200", "H200", " h200 "}) {
    const auto device = parse(name);
    REQUIRE(device);
    CHECK(device->name == "NVIDIA H200");
    CHECK(device->major == 9);
    CHECK(device->minor == 0);
    CHECK(device->multiprocessors == 132);
    CHECK(device->memory_bandwidth == 4.8e12);
    CHECK_FALSE(device->present());
  }
}

TEST_CASE("a block may use what its capability allows") {
  CHECK(parse("sm_80")->shared_per_block == 166912);
  CHECK(parse("sm_86")->shared_per_block == 101376);
  CHECK(parse("sm_87")->shared_per_block == 166912);
  CHECK(parse("sm_89")->shared_per_block == 101376);
  CHECK(parse("sm_90a")->shared_per_block == 232448);
  CHECK(parse("sm_100a")->shared_per_block == 232448);
  CHECK(parse("sm_120a")->shared_per_block == 101376);
}

TEST_CASE("every known device is whole") {
  for (const char* name :
       {"h200",    "h100",   "a100",    "l40s",   "l4",      "rtx4090", "rtx3090", "b200",
        "rtx5090", "sm_80",  "sm_86",   "sm_87",  "sm_89",   "sm_90",   "sm_90a",  "sm_100",
        "sm_100a", "sm_103", "sm_103a", "sm_120", "sm_120a", "sm_121",  "sm_121a"}) {
    INFO(name);
    const auto device = parse(name);
    REQUIRE(device);
    CHECK(device->multiprocessors > 0);
    CHECK(device->shared_per_block + 1024 == device->shared_per_multiprocessor);
    CHECK(device->l2_bytes > 0);
    CHECK(device->memory_bandwidth > 1e11);
  }
}

TEST_CASE("a bare target stands for the devices of its capability that have names") {
  const auto names_of = [](const char* target) {
    std::string names;
    for (const auto& device : devices_of(target)) names += device.name + ";";
    return names;
  };
  CHECK(names_of("sm_90a") == "NVIDIA H200;NVIDIA H100 80GB HBM3;");
  CHECK(names_of(" SM_90 ") == names_of("sm_90a"));
  CHECK(names_of("sm_89") == "NVIDIA L40S;NVIDIA L4;NVIDIA GeForce RTX 4090;");
  CHECK(names_of("sm_103a").empty());  // none has a name
  CHECK(names_of("h200").empty());
  CHECK(names_of("sm_42").empty());
}

TEST_CASE("an unknown name is an invalid_argument that lists the known ones") {
  for (const char* name : {"", "h20", "sm_75", "h200x", "hopper"}) {
    const auto device = parse(name);
    REQUIRE_FALSE(device);
    CHECK(device.status().code() == kda::Code::invalid_argument);
    CHECK_THAT(device.status().message(), contains("h200, h100") && contains("sm_90a"));
    CHECK_THAT(device.status().message(), contains("\"" + std::string(name) + "\""));
  }
}
