// The order in which groups take tiles (templates/sm90/factors/walk.cuh), by groups of one warp
// that only count.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "abi/chunk.h"
#include "abi/factors.h"
#include "abi/tensors.h"
#include "compile/nvrtc.hpp"
#include "compose/embedded.hpp"
#include "device/device.hpp"
#include "launch/enqueue.hpp"
#include "launch/module.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/gpu.hpp"

namespace {

using namespace kda;

struct Args {
  abi::chunk::PrepareArgs prepare;
  int* told = nullptr;   // [slots, HV]: by whom `each` was told of a tile, and how often
  int* taken = nullptr;  // [slots, HV]: by whom it was taken, and how often
  int* tiles = nullptr;  // [groups]: how many it took
};
constexpr int kGroup = 1000;  // of what told and taken add up

constexpr const char* kSource = R"(
#include "sm90/factors/walk.cuh"
struct Args {
  kda::abi::chunk::PrepareArgs prepare;
  int* told;
  int* taken;
  int* tiles;
};
extern "C" __global__ void count(const __grid_constant__ Args args) {
  const int group = static_cast<int>(blockIdx.x);
  const auto mark = [&](int* at, const kda::Tile& tile) {
    atomicAdd(at + tile.slot * args.prepare.in.value_heads + tile.head, 1000 * group + 1);
  };
  kda::Walk walk(args.prepare, group);
  walk.each([&](const kda::Tile& tile) { mark(args.told, tile); });
  int tiles = 0;
  while (!walk.is_over()) {
    if (threadIdx.x == 0) mark(args.taken, walk.here());
    ++tiles;
    walk.next();
  }
  if (threadIdx.x == 0) args.tiles[group] = tiles;
}
)";

// short_tokens and abreast as of abi::factors::Tuning.
launch::Module module_of(bool varlen, int short_tokens, int abreast = 0) {
  std::vector<compile::Header> headers;
  for (const auto& file : compose::embedded_files()) headers.push_back({file.path, file.text});
  const std::string source =
      std::string("#define KDA_SHAPE {.varlen = ") + (varlen ? "true" : "false") +
      "}\n#define KDA_TUNING {.short_tokens = " + std::to_string(short_tokens) +
      ", .abreast = " + std::to_string(abreast) + "}\n" + kSource;
  const auto built =
      compile::compile({source, "count", "sm_90a", compile::options("sm_90a")}, headers);
  INFO(built.status().message());
  REQUIRE(built);
  auto module = launch::Module::load(built->cubin, "count", 0, 0, 1);
  INFO(module.status().message());
  REQUIRE(module);
  return std::move(*module);
}

struct Run {
  std::vector<std::int64_t> lengths;
  int heads;
  int groups;
  int segment = 0;  // chunks
};

// A sequence.
int segments_of(const Run& run) {
  if (run.segment == 0) return 1;
  const auto tokens = std::int64_t{run.segment} * abi::factors::chunk;
  return static_cast<int>((run.lengths.front() + tokens - 1) / tokens);
}

// As strategy/chunk_factors.cpp has groups step.
abi::chunk::Walk walk_of(const Run& run, bool apart) {
  const int sequences = static_cast<int>(run.lengths.size());
  const int rows = run.groups / run.heads / segments_of(run);
  return {.heads = run.groups % run.heads,
          .sequences = apart ? 0 : rows % sequences,
          .chunks = apart ? rows : rows / sequences,
          .ahead = 1};
}

template <class T>
std::vector<T> back(const test::DeviceMemory& memory) {
  const std::vector<std::byte> bytes = memory.download();
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// What each group took, once every tile has been seen to be taken once, by whom it was told to.
std::vector<int> counts_of(const test::Gpu& gpu, const launch::Module& module, const Run& run,
                           bool varlen, int short_tokens) {
  const bool apart = short_tokens > 1;
  std::vector<std::int64_t> cu(1, 0);
  for (const std::int64_t length : run.lengths) cu.push_back(cu.back() + length);
  const std::size_t slots = static_cast<std::size_t>(cu.back()) / abi::factors::chunk + cu.size();
  std::vector<int> none(slots * static_cast<std::size_t>(run.heads), 0);

  test::DeviceMemory offsets(gpu, cu.size() * sizeof(std::int64_t));
  offsets.upload(cu.data());
  test::DeviceMemory told(gpu, none.size() * sizeof(int)), taken(gpu, none.size() * sizeof(int));
  told.upload(none.data());
  taken.upload(none.data());
  test::DeviceMemory tiles(gpu, static_cast<std::size_t>(run.groups) * sizeof(int));

  Args args;
  args.prepare.in.cu_seqlens = offsets.data();
  args.prepare.in.tokens = cu.back();
  args.prepare.in.length = run.lengths.front();
  args.prepare.in.sequences = static_cast<int>(run.lengths.size());
  args.prepare.in.value_heads = run.heads;
  args.prepare.walk = walk_of(run, apart);
  args.prepare.segment = run.segment;
  args.prepare.segments = run.groups / run.heads % segments_of(run);
  args.told = static_cast<int*>(told.data());
  args.taken = static_cast<int*>(taken.data());
  args.tiles = static_cast<int*>(tiles.data());
  const launch::Geometry geometry{
      .grid = {static_cast<unsigned>(run.groups), 1, 1}, .threads = 32, .shared_bytes = 0};
  REQUIRE(launch::enqueue(module, geometry, &args, gpu.stream()));
  gpu.synchronize();

  std::vector<int> wanted = none;
  for (std::size_t n = 0; n < run.lengths.size(); ++n) {
    if (varlen && apart && run.lengths[n] <= short_tokens) continue;
    const auto first = static_cast<std::size_t>(cu[n]) / abi::factors::chunk + n;
    const auto chunks =
        static_cast<std::size_t>(run.lengths[n] + abi::factors::chunk - 1) / abi::factors::chunk;
    const auto heads = static_cast<std::size_t>(run.heads);
    std::fill_n(wanted.begin() + static_cast<std::ptrdiff_t>(first * heads),
                static_cast<std::ptrdiff_t>(chunks * heads), 1);
  }
  const std::vector<int> by_whom = back<int>(taken);
  CHECK(back<int>(told) == by_whom);
  std::vector<int> often = by_whom;
  for (int& each : often) each %= kGroup;
  CHECK(often == wanted);
  return back<int>(tiles);
}

std::vector<Run> packs() {
  std::vector<Run> out;
  for (const int heads : {1, 3, 8, 16})
    for (const int groups : {1, 7, 48, 336}) {
      out.push_back({{8000, 100, 92}, heads, groups});
      out.push_back({{7000, 300, 700, 192}, heads, groups});
      out.push_back({{0, 33, 0, 0, 64, 1, 900}, heads, groups});
      out.push_back({{0, 0}, heads, groups});
      out.push_back({{2048, 2048, 2048, 2048}, heads, groups});
      Run steps{{}, heads, groups};
      for (int n = 0; n < abi::factors::most_walked; ++n) steps.lengths.push_back(n * 37 % 32 * 31);
      out.push_back(steps);
    }
  return out;
}

int spread(const std::vector<int>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *most - *least;
}

}  // namespace

// The bug: groups stepped over the places of sequences that had ended.  Of 8000, 100 and 92 tokens
// and 16 heads, whose steps are a multiple of the 48 places of a chunk, a third of the groups had
// all of the long sequence: 508 us on an H100 where it takes 240.
TEST_CASE("groups share the tiles of a pack alike, however long its sequences", "[gpu]") {
  if (!test::on_device()) return;
  const test::Gpu gpu;
  const launch::Module module = module_of(true, 1);
  for (const Run& run : packs()) {
    INFO(run.lengths.size() << " sequences from " << run.lengths.front() << " on, " << run.heads
                            << " heads, " << run.groups << " groups");
    CHECK(spread(counts_of(gpu, module, run, true, 1)) <= 1);
  }
}

TEST_CASE("groups share the tiles of equal sequences", "[gpu]") {
  if (!test::on_device()) return;
  const test::Gpu gpu;
  const launch::Module module = module_of(false, 1);
  for (const int heads : {1, 3, 16})
    for (const int groups : {1, 7, 48, 336})
      for (const Run& run :
           {Run{{1000}, heads, groups}, Run{std::vector<std::int64_t>(5, 65), heads, groups}}) {
        INFO(run.lengths.size() << " sequences, " << heads << " heads, " << groups << " groups");
        CHECK(spread(counts_of(gpu, module, run, false, 1)) <= 1);
      }
}

TEST_CASE("groups share the tiles of a mixed pack's long sequences", "[gpu]") {
  if (!test::on_device()) return;
  const test::Gpu gpu;
  constexpr int kShort = 8;
  const launch::Module module = module_of(true, kShort);
  std::vector<std::int64_t> mixed(70, 1);
  mixed[3] = 3000;
  mixed[40] = 500;
  mixed[69] = 33;
  for (const int heads : {1, 3, 16})
    for (const int groups : {1, 7, 48, 336}) {
      INFO(heads << " heads, " << groups << " groups");
      CHECK(spread(counts_of(gpu, module, {mixed, heads, groups}, true, kShort)) <= 1);
    }
}

// Of a last segment that is shorter the others' groups take no more for it.
TEST_CASE("groups take every tile of segments abreast", "[gpu]") {
  if (!test::on_device()) return;
  const test::Gpu gpu;
  const launch::Module module = module_of(false, 1, 1);
  for (const int heads : {1, 3, 8})
    for (const int groups : {1, 7, 48, 368})
      for (const int segment : {1, 3, 16, 410})
        for (const auto& lengths : {std::vector<std::int64_t>{1000}, {65}, {5000, 5000, 5000}}) {
          const Run run{lengths, heads, groups, segment};
          INFO(lengths.size() << " sequences of " << lengths.front() << ", " << heads << " heads, "
                              << groups << " groups, segments of " << segment << " chunks");
          const std::vector<int> counts = counts_of(gpu, module, run, false, 1);
          const int places = segments_of(run) * segment * static_cast<int>(lengths.size()) * heads;
          CHECK(*std::max_element(counts.begin(), counts.end()) <= (places + groups - 1) / groups);
        }
}
