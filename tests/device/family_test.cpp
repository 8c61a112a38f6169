#include "device/family.hpp"

#include "compile/nvrtc.hpp"
#include "support/catch.hpp"

using kda::device::Device;
using kda::device::family_of;
using kda::device::parse;
using kda::test::contains;

TEST_CASE("each capability has its target, its folder and a folder to fall back on") {
  const auto family = [](int major, int minor) {
    const auto found = family_of(Device{.major = major, .minor = minor});
    return found ? std::string(found->target) + " " + found->folder + " " + found->fallback
                 : std::string("none");
  };
  CHECK(family(8, 0) == "sm_80 sm80 sm80");
  CHECK(family(8, 6) == "sm_86 sm80 sm80");
  CHECK(family(8, 7) == "sm_87 sm80 sm80");
  CHECK(family(8, 9) == "sm_89 sm80 sm80");
  CHECK(family(9, 0) == "sm_90a sm90 sm80");
  CHECK(family(10, 0) == "sm_100a sm100 sm80");
  CHECK(family(10, 3) == "sm_103a sm100 sm80");
  CHECK(family(12, 0) == "sm_120a sm120 sm80");
  CHECK(family(12, 1) == "sm_121a sm120 sm80");
  CHECK(family(7, 5) == "none");
}

TEST_CASE("a device of no family is unsupported, naming its capability and those served") {
  const auto family = family_of(Device{.name = "Tesla T4", .major = 7, .minor = 5});
  REQUIRE_FALSE(family);
  CHECK(family.status().code() == kda::Code::unsupported);
  CHECK_THAT(family.status().message(),
             contains("Tesla T4") && contains("7.5") && contains("8.0, 8.6") && contains("9.0"));
}

// The bug: nothing could be compiled for the table's sm_87, which no row of the named devices had.
TEST_CASE("every family's target is a device's name, and that device its own") {
  int families = 0;
  for (int capability = 0; capability < 200; ++capability) {
    const auto family = family_of(Device{.major = capability / 10, .minor = capability % 10});
    if (!family) continue;
    ++families;
    INFO(family->target);
    const auto device = parse(family->target);
    REQUIRE(device);
    CHECK(device->major == family->major);
    CHECK(device->minor == family->minor);
  }
  CHECK(families == 9);
}

TEST_CASE("every named device has a family whose target NVRTC takes") {
  for (const char* name : {"h200", "a100", "sm_87", "l40s", "l4", "rtx3090", "b200", "rtx5090",
                           "sm_103a", "sm_121a"}) {
    INFO(name);
    const auto family = family_of(*parse(name));
    REQUIRE(family);
    const auto build = kda::compile::compile({.source = "extern \"C\" __global__ void k() {}\n",
                                              .entry = "k",
                                              .target = family->target,
                                              .options = kda::compile::options(family->target)},
                                             {});
    INFO(build.status().message());
    CHECK(build);
  }
}
