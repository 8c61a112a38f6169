// kda_prefill_f32 on a driver of our own: its refusals and codes, and what it asks of the driver.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kda/kda.h"
#include "kda/prefill.h"
#include "support/catch.hpp"
#include "support/fake_driver.hpp"
#include "support/scratch.hpp"

using namespace kda;

namespace {

// Compiled once for all cases; each case makes its plans anew on its own driver.
const std::string& cache() {
  static const test::Scratch directory;
  return directory.path();
}

struct Machine {
  test::Environment cached{"KDA_CACHE_DIR", cache()};
  test::FakeDriver driver;
};

float* at(std::uintptr_t address) { return reinterpret_cast<float*>(address); }

KdaPrefillIO legal() {
  KdaPrefillIO io = {};
  io.q = at(0x100000);
  io.k = at(0x200000);
  io.v = at(0x300000);
  io.g = at(0x400000);
  io.beta = at(0x500000);
  io.w = at(0x600000);
  io.u = at(0x700000);
  io.o = at(0x800000);
  io.batch_size = 2;
  io.num_heads = 3;
  io.seq_len = 100;
  io.head_dim = io.value_dim = 64;
  io.chunk_size = 32;
  return io;
}

void check_refused(const KdaPrefillIO& io, int code, const std::string& part) {
  CHECK(kda_prefill_f32(&io, nullptr) == code);
  CHECK_THAT(std::string(kda_last_message()), test::contains(part));
}

}  // namespace

TEST_CASE("the io struct is laid out as the first kda_prefill had it", "[api]") {
  static_assert(sizeof(KdaPrefillIO) == 8 * sizeof(void*) + 7 * sizeof(int) + sizeof(int));
  static_assert(offsetof(KdaPrefillIO, o) == 7 * sizeof(void*));
  static_assert(offsetof(KdaPrefillIO, batch_size) == 8 * sizeof(void*));
  static_assert(offsetof(KdaPrefillIO, num_chunks) == 8 * sizeof(void*) + 6 * sizeof(int));
  SUCCEED();
}

TEST_CASE("arguments that contradict themselves are 1, what nothing serves is 801", "[api]") {
  const Machine machine;
  CHECK(kda_prefill_f32(nullptr, nullptr) == 1);
  CHECK_THAT(std::string(kda_last_message()), test::contains("io is null"));

  struct Bad {
    int KdaPrefillIO::*field;
    int value, code;
    const char* part;
  };
  const Bad all[] = {
      {&KdaPrefillIO::batch_size, 0, 1, "batch_size = 0"},
      {&KdaPrefillIO::num_heads, -1, 1, "num_heads = -1"},
      {&KdaPrefillIO::seq_len, -5, 1, "seq_len = -5"},
      {&KdaPrefillIO::head_dim, 0, 1, "head_dim = 0"},
      {&KdaPrefillIO::value_dim, 0, 1, "value_dim = 0"},
      {&KdaPrefillIO::chunk_size, 0, 1, "chunk_size = 0"},
      {&KdaPrefillIO::num_chunks, 3, 1, "num_chunks = 3"},
      {&KdaPrefillIO::num_chunks, 5, 1, "makes 4, or 0 for that"},
      {&KdaPrefillIO::chunk_size, 48, 801, "chunk_size = 48"},
      {&KdaPrefillIO::head_dim, 257, 801, "key_dim = 257"},
      {&KdaPrefillIO::value_dim, 9000, 801, "9000"},
  };
  for (const Bad& bad : all) {
    KdaPrefillIO io = legal();
    io.*bad.field = bad.value;
    check_refused(io, bad.code, bad.part);
  }
  KdaPrefillIO io = legal();
  io.q = nullptr;
  check_refused(io, 1, "q is null");
  io = legal();
  io.g = at(0x400002);
  check_refused(io, 1, "g = 0x400002 is not aligned");
  CHECK(machine.driver.launches.empty());
  // The bug: a plan was made, and memory taken and given back in the stream, before the arguments
  // were looked at.
  CHECK(machine.driver.allocations.empty());
  CHECK(machine.driver.libraries_loaded == 0);
}

TEST_CASE("the knobs of the stages are honoured, or refused by name", "[api]") {
  Machine machine;
  {
    const test::Environment shards("KDA_INTER_SHARDS", "3");
    check_refused(legal(), 1, "KDA_INTER_SHARDS = 3 does not divide value_dim = 64");
  }
  {
    const test::Environment threads("KDA_INTRA_THREADS", "many");
    check_refused(legal(), 1, "KDA_INTRA_THREADS = 'many'");
  }
  {
    const test::Environment threads("KDA_INTRA_THREADS", "100");
    check_refused(legal(), 1, "prepare_threads");
  }
  {
    const test::Environment threads("KDA_INTRA_THREADS", "512");
    check_refused(legal(), 801, "prepare_threads=512");
  }
  const test::Environment intra("KDA_INTRA_THREADS", "64");
  const test::Environment inter("KDA_INTER_THREADS", "32");
  const test::Environment shards("KDA_INTER_SHARDS", "4");
  const KdaPrefillIO io = legal();
  REQUIRE(kda_prefill_f32(&io, nullptr) == 0);
  REQUIRE(machine.driver.launches.size() == 2);
  CHECK(machine.driver.launches[0].config.blockDimX == 64);
  CHECK(machine.driver.launches[1].config.blockDimX == 32);
  CHECK(machine.driver.launches[1].config.gridDimX == 2 * 3 * 4);
}

TEST_CASE("a size is planned once; its workspace comes and goes on the stream", "[api]") {
  Machine machine;
  test::FakeDriver& driver = machine.driver;
  const KdaPrefillIO io = legal();
  REQUIRE(kda_prefill_f32(&io, nullptr) == 0);
  CHECK(driver.launches.size() == 2);
  CHECK(driver.launches[0].config.gridDimX == 200 / 32 + 2);  // chunk slots of two sequences
  CHECK(driver.launches[0].config.gridDimY == 3);
  CHECK(driver.pools == 1);
  CHECK(driver.allocations.size() == 1);
  CHECK(driver.freed == 1);
  const int loaded = driver.libraries_loaded;
  const int asked = driver.calls;
  REQUIRE(kda_prefill_f32(&io, nullptr) == 0);
  CHECK(driver.libraries_loaded == loaded);
  CHECK(driver.pools == 1);
  CHECK(driver.freed == 2);
  // Which device, take, what stream it is, two launches, give back.
  CHECK(driver.calls - asked <= 7);

  KdaPrefillIO longer = io;
  longer.seq_len = 200;
  longer.num_chunks = 7;
  CHECK(kda_prefill_f32(&longer, nullptr) == 0);
  CHECK(driver.allocations.back() > driver.allocations.front());
  longer.seq_len = 192;  // whole chunks
  longer.num_chunks = 6;
  CHECK(kda_prefill_f32(&longer, nullptr) == 0);
  KdaPrefillIO plain = io;  // without w and u the planner may choose the chunks
  plain.w = plain.u = nullptr;
  CHECK(kda_prefill_f32(&plain, nullptr) == 0);
  plain.w = io.w;
  CHECK(kda_prefill_f32(&plain, nullptr) == 0);

  KdaPrefillIO nothing = io;
  nothing.seq_len = 0;
  const std::size_t launches = driver.launches.size();
  CHECK(kda_prefill_f32(&nothing, nullptr) == 0);
  CHECK(driver.launches.size() == launches);
}

// It was refused.
TEST_CASE("the first call of a size may be captured", "[api]") {
  Machine machine;
  machine.driver.capturing = true;
  KdaPrefillIO io = legal();
  io.head_dim = 20;  // which no other test keeps loaded
  CHECK(kda_prefill_f32(&io, nullptr) == 0);
  CHECK(machine.driver.libraries_loaded > 0);
  CHECK(machine.driver.pools == 1);
  CHECK(machine.driver.breaking_calls == 0);
}

// The bug: plans of captured calls went with the others when more than 64 sizes came after them,
// and their code with them, which the graph runs whenever it is replayed.
TEST_CASE("the plan of a captured call stays, however many sizes come after", "[api]") {
  Machine machine;
  test::FakeDriver& driver = machine.driver;
  KdaPrefillIO captured = legal(), passing = legal();
  captured.head_dim = 36;  // kernels of their own: sizes that differ in T alone share theirs
  passing.head_dim = 28;
  REQUIRE(kda_prefill_f32(&captured, nullptr) == 0);
  driver.capturing = true;
  REQUIRE(kda_prefill_f32(&captured, nullptr) == 0);
  driver.capturing = false;
  REQUIRE(kda_prefill_f32(&passing, nullptr) == 0);
  KdaPrefillIO other = legal();
  for (int i = 0; i < 70; ++i) {
    other.seq_len = 96 + 32 * i;
    REQUIRE(kda_prefill_f32(&other, nullptr) == 0);
  }
  const auto loaded_for = [&](const KdaPrefillIO& io) {
    const int before = driver.libraries_loaded;
    REQUIRE(kda_prefill_f32(&io, nullptr) == 0);
    return driver.libraries_loaded - before;
  };
  CHECK(loaded_for(captured) == 0);
  CHECK(loaded_for(passing) > 0);
}

TEST_CASE("what the driver refuses comes out as its own code", "[api]") {
  // The first implementation dropped the failure of its shared-memory attribute and launched.
  {
    Machine machine;
    machine.driver.refuse_once = "cuKernelSetAttribute";
    check_refused(legal(), CUDA_ERROR_UNKNOWN, "dynamic shared memory");
    CHECK(machine.driver.launches.empty());
  }
  Machine machine;
  machine.driver.allocate_result = CUDA_ERROR_OUT_OF_MEMORY;
  check_refused(legal(), 2, "cuMemAllocFromPoolAsync of ");
  machine.driver.allocate_result = CUDA_SUCCESS;
  machine.driver.launch_result = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  check_refused(legal(), 701, "kernel launch");
  CHECK(machine.driver.freed == static_cast<int>(machine.driver.allocations.size()));
  machine.driver.launch_result = CUDA_SUCCESS;
  const KdaPrefillIO io = legal();
  CHECK(kda_prefill_f32(&io, nullptr) == 0);
}

TEST_CASE("a pool that was lost with its device is made again", "[api]") {
  Machine machine;
  const KdaPrefillIO io = legal();
  REQUIRE(kda_prefill_f32(&io, nullptr) == 0);
  machine.driver.lost_pools = machine.driver.pools;
  CHECK(kda_prefill_f32(&io, nullptr) == 0);
  CHECK(machine.driver.pools == 2);
}

// The bug: each call that the driver refused for its stream left a pool behind, the first with all
// that it had kept.
TEST_CASE("a pool is kept where it is the stream that is not good", "[api]") {
  Machine machine;
  test::FakeDriver& driver = machine.driver;
  const KdaPrefillIO io = legal();
  REQUIRE(kda_prefill_f32(&io, nullptr) == 0);
  driver.allocate_result = CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 2; ++i) {
    check_refused(legal(), CUDA_ERROR_INVALID_HANDLE, "cuMemAllocFromPoolAsync of ");
  }
  CHECK(driver.pools - driver.destroyed_pools == 1);
  driver.allocate_result = CUDA_SUCCESS;
  const int made = driver.pools;
  CHECK(kda_prefill_f32(&io, nullptr) == 0);
  CHECK(driver.pools == made);
}

TEST_CASE("more than 2^31 elements bind without 32-bit overflow", "[api]") {
  // The first implementation indexed with ints.
  Machine machine;
  KdaPrefillIO io = legal();
  io.batch_size = 4;
  io.num_heads = 128;
  io.seq_len = 65536;
  REQUIRE(kda_prefill_f32(&io, nullptr) == 0);
  const auto& launches = machine.driver.launches;
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].config.gridDimX == 4U * 65536 / 32 + 4);
  // Kd alone: 4 bytes of every element.
  CHECK(machine.driver.allocations.back() > (std::size_t{1} << 31) * 4);
}
