// Plans whose kernels copy tensors by maps, on a driver of our own.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/chunk_wgmma.h"
#include "abi/fused.h"
#include "abi/segments.h"
#include "plan/kept.hpp"
#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/fake_driver.hpp"
#include "support/forward.hpp"
#include "support/scratch.hpp"
#include "support/words.hpp"

using namespace kda;
using test::FakeDriver;

namespace {

using Made = std::unique_ptr<const Plan::Impl>;

struct Fresh {
  Fresh() { plan::forget_all(); }
  ~Fresh() { plan::forget_all(); }
  FakeDriver fake;
};

Made make(const char* strategy = "fused", const char* words = "T=256 H=2 K=128 V=128",
          const char* tuning = "") {
  static const test::Scratch scratch;
  const Problem problem = test::problem_in_words(words);
  auto made = plan::make_all({&problem, 1},
                             {.cache_dir = scratch.path(), .strategy = strategy, .tuning = tuning});
  INFO(made.front().status().message());
  REQUIRE(made.front());
  return std::move(*made.front());
}

// Tensors of 16-bit elements lie `past` bytes further.
Status run(const Plan::Impl& plan, std::uintptr_t base, std::uintptr_t past = 0) {
  const auto at = [&](std::uintptr_t offset) { return reinterpret_cast<void*>(base + offset); };
  Forward f = test::forward_at(100, base + past, 0x100000);
  f.A_log = static_cast<const float*>(at(0x600000));
  f.dt_bias = static_cast<const float*>(at(0x610000));
  return plan::run(plan, f, at(0x700000), plan.program.recipe.workspace_bytes, nullptr);
}

constexpr std::uintptr_t kPool = 0x2000000;

// Of a plan with checkpoints; the pool lies `past` bytes further.
Status run_on_pool(const Plan::Impl& plan, std::uintptr_t past = 0) {
  constexpr std::uintptr_t kBase = 0x1000000;
  const auto at = [](std::uintptr_t offset) { return reinterpret_cast<void*>(kBase + offset); };
  Forward f = test::forward_at(100, kBase, 0x100000);
  f.A_log = static_cast<const float*>(at(0x600000));
  f.dt_bias = static_cast<const float*>(at(0x610000));
  f.initial_state = f.final_state = reinterpret_cast<void*>(kPool + past);
  f.pool.slots = 5;
  f.pool.indices.data = at(0x620000);
  f.pool.checkpoints.data = at(0x630000);
  return plan::run(plan, f, at(0x700000), plan.program.recipe.workspace_bytes, nullptr);
}

}  // namespace

TEST_CASE("a run has its own tensors' maps written before it is launched", "[plan][compile]") {
  Fresh at;
  const Made plan = make();
  at.fake.bytes_kept = sizeof(abi::fused::Args);
  for (const std::uintptr_t base : {0x1000000, 0x2000000}) {
    at.fake.tensor_maps.clear();
    at.fake.launches.clear();
    const Status status = run(*plan, base);
    INFO(status.message());
    REQUIRE(status);
    std::vector<std::uintptr_t> data;
    for (const auto& map : at.fake.tensor_maps)
      data.push_back(reinterpret_cast<std::uintptr_t>(map.data) - base);
    CHECK(data == std::vector<std::uintptr_t>{0x200000, 0x500000, 0, 0x100000, 0x300000});
    REQUIRE(at.fake.launches.size() == 1);
    abi::fused::Args args;
    std::memcpy(&args, at.fake.launches[0].bytes.data(), sizeof args);
    CHECK(args.maps);
    CHECK(args.raw.present);
    int number = 0;  // which the driver writes into every byte of a map
    for (const abi::TensorMap* map : {&args.v, &args.o, &args.raw.q, &args.raw.k, &args.raw.g}) {
      ++number;
      for (const unsigned char byte : map->bytes) CHECK(byte == number);
    }
  }
}

TEST_CASE("a chain's stage has maps of v and o, or of neither", "[plan][compile]") {
  Fresh at;
  at.fake.bytes_kept = sizeof(abi::chunk_wgmma::Args);
  static_assert(sizeof(abi::chunk_wgmma::Args) >= sizeof(abi::segments::Args));
  for (const char* strategy : {"chunk_wgmma", "segments"}) {
    const Made plan = make(strategy, "T=256 H=2 K=128 V=128");
    for (const std::uintptr_t past : {0, 2}) {
      INFO(strategy << ", " << past);
      at.fake.tensor_maps.clear();
      at.fake.launches.clear();
      const Status status = run(*plan, 0x1000000, past);
      INFO(status.message());
      REQUIRE(status);
      std::vector<std::uintptr_t> data;
      for (const auto& map : at.fake.tensor_maps)
        data.push_back(reinterpret_cast<std::uintptr_t>(map.data) - 0x1000000);
      using Data = std::vector<std::uintptr_t>;
      CHECK(data == (past == 0 ? Data{0x200000, 0x500000} : Data{}));
      REQUIRE(at.fake.launches.size() >= 2);
      const auto& bytes = at.fake.launches[1].bytes;  // of the recurrence, or the walk
      abi::chunk_wgmma::RowMaps rows;
      const std::size_t offset = std::string_view(strategy) == "segments"
                                     ? offsetof(abi::segments::Args, rows)
                                     : offsetof(abi::chunk_wgmma::Args, rows);
      REQUIRE(bytes.size() >= offset + sizeof rows);
      std::memcpy(&rows, bytes.data() + offset, sizeof rows);
      CHECK(rows.present == (past == 0));
    }
  }
}

TEST_CASE("rows that the copy engine does not take are launched without maps", "[plan][compile]") {
  Fresh at;
  const Made plan = make();
  CHECK(run(*plan, 0x1000000, 2));
  CHECK(at.fake.tensor_maps.empty());
  CHECK(at.fake.launches.size() == 1);
}

TEST_CASE("checkpoints have a map of their pool, where the copy engine takes it",
          "[plan][compile]") {
  Fresh at;
  at.fake.bytes_kept = sizeof(abi::fused::Args);
  for (const char* strategy : {"fused", "chunk_wgmma"}) {
    const bool fused = std::string_view(strategy) == "fused";
    // Two groups leave a checkpoint room in shared memory; teams store it from registers.
    const Made plan = make(strategy, "T=256 H=2 K=128 V=128 pool=1 h0=1 ht=1 checkpoint=64",
                           fused ? "groups=2" : "");
    for (const std::uintptr_t past : {0, 4}) {  // bytes of the pool
      INFO(strategy << ", " << past);
      at.fake.tensor_maps.clear();
      at.fake.launches.clear();
      const Status status = run_on_pool(*plan, past);
      INFO(status.message());
      REQUIRE(status);
      const std::vector<FakeDriver::TensorMap>& maps = at.fake.tensor_maps;
      REQUIRE(maps.size() == std::size_t{fused ? 5U : 0U} + (past == 0 ? 1 : 0));
      if (past == 0) CHECK(maps.back().data == reinterpret_cast<void*>(kPool));
      const auto& bytes = at.fake.launches.back().bytes;
      abi::state_box::Pool pool;
      if (fused) {
        abi::fused::Args args;
        std::memcpy(&args, bytes.data(), sizeof args);
        pool = args.checkpoints;
      } else {
        abi::chunk_wgmma::Args args;
        std::memcpy(&args, bytes.data(), sizeof args);
        pool = args.checkpoints;
      }
      CHECK(pool.present == (past == 0));
      if (!pool.present) continue;
      for (const unsigned char byte : pool.map.bytes) CHECK(byte == maps.size());
    }
  }
}

TEST_CASE("checkpoints that leave from registers need no map of their pool", "[plan][compile]") {
  // Three groups and teams, the defaults where they are rarer, leave no room in shared memory.
  for (const char* every : {"256", "1024"}) {
    Fresh at;
    const Made plan =
        make("fused",
             (std::string("T=256 H=2 K=128 V=128 pool=1 h0=1 ht=1 checkpoint=") + every).c_str());
    const Status status = run_on_pool(*plan);
    INFO(status.message());
    REQUIRE(status);
    CHECK(at.fake.tensor_maps.size() == 5);
  }
}

TEST_CASE("a map that is refused is an error, and nothing is launched", "[plan][compile]") {
  Fresh at;
  const Made plan = make();
  at.fake.encode_result = CUDA_ERROR_INVALID_VALUE;
  const Status status = run(*plan, 0x1000000);
  CHECK(status.code() == Code::device_error);
  CHECK_THAT(status.message(), test::contains("cuTensorMapEncodeTiled"));
  CHECK(at.fake.launches.empty());
}
