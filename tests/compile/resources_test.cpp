#include "compile/resources.hpp"

#include "support/catch.hpp"

using kda::compile::parse_resources;

namespace {

// NVRTC 13.0's own words, two entries and a function that was not inlined.
constexpr const char* kLog = R"(kda.cu(3): warning #177-D: variable "Used 9 registers" is unused
ptxas info    : 4 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'prepare' for 'sm_89'
ptxas info    : Function properties for prepare
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Function properties for helper
    48 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 48 bytes cumulative stack size, 1024 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 3.226 ms
ptxas info    : Compiling entry function 'prepare_tail' for 'sm_89'
ptxas info    : Function properties for prepare_tail
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
)";

}  // namespace

TEST_CASE("resources are those of the entry and of what it calls") {
  const auto resources = parse_resources(kLog, "prepare");
  CHECK(resources.registers == 168);
  CHECK(resources.spill_bytes == 44);
  CHECK(resources.stack_bytes == 48);
  CHECK(resources.static_shared_bytes == 1024);
}

TEST_CASE("resources of one entry are not taken from another whose name it begins") {
  const auto resources = parse_resources(kLog, "prepare_tail");
  CHECK(resources.registers == 8);
  CHECK(resources.spill_bytes == 0);
  CHECK(resources.static_shared_bytes == 0);
}

// The bug: CUDA 12.8's ptxas and older had `fused` take 1.75 times as long, and said so in a line
// that nobody read.
TEST_CASE("products that ptxas serializes are noticed, of the entry alone") {
  const std::string log = std::string(
                              "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async "
                              "instructions are serialized due to non wgmma instructions defining "
                              "input registers of a wgmma between start and end of the pipeline "
                              "stage in the function 'prepare'\n") +
                          kLog;
  CHECK(parse_resources(log, "prepare").serialized_wgmma == 1);
  CHECK(parse_resources(log, "prepare").registers == 168);
  CHECK(parse_resources(log, "prepare_tail").serialized_wgmma == 0);
  CHECK(parse_resources(kLog, "prepare").serialized_wgmma == 0);
}

TEST_CASE("no report is no resources") {
  CHECK(parse_resources(kLog, "prep").registers == 0);
  CHECK(parse_resources("", "prepare").registers == 0);
}

// The bug: a fuzzer's log that spilled more than 31 bits of bytes overflowed their sum.
TEST_CASE("a report of absurd numbers is not an overflow") {
  const auto resources = parse_resources(
      "ptxas info    : Compiling entry function 'prepare' for 'sm_89'\n"
      "    7 bytes stack frame, 2147483647 bytes spill stores, 99999999999 bytes spill loads\n"
      "    7 bytes stack frame, 2147483647 bytes spill stores, 2147483647 bytes spill loads\n"
      "ptxas info    : Used 77777777777777 registers\n",
      "prepare");
  CHECK(resources.spill_bytes == 1 << 30);
  CHECK(resources.stack_bytes == 7);
  CHECK(resources.registers == 1 << 30);
}
