#include "strategy/chunk_factors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/factors.h"
#include "compose/prelude.hpp"
#include "problem/shape.hpp"
#include "strategy/lengths.hpp"
#include "strategy/prepared_by.hpp"

namespace kda::strategy {

using abi::chunk::PrepareTuning;
using compose::Launch;
using compose::Run;

FactorSlices::FactorSlices(const Problem& problem, int chunk, compose::Workspace& workspace,
                           bool flags)
    : chunk_(chunk), flags_(flags) {
  const abi::Shape shape = problem::shape_of(problem);
  const auto tiles = static_cast<std::size_t>(
      slots_of(problem.max_tokens, problem.max_sequences, chunk) * problem.value_heads);
  images_ = workspace.take(tiles * static_cast<std::size_t>(abi::chunk::image(shape, chunk).bytes));
  ready_ = workspace.take(flags ? tiles * sizeof(unsigned) : 0);
}

abi::chunk::Factors FactorSlices::at(const Run& run) const {
  std::byte* const workspace = run.workspace;
  abi::chunk::Factors factors;
  factors.images = reinterpret_cast<char*>(workspace + images_);
  if (flags_) factors.ready = reinterpret_cast<unsigned*>(workspace + ready_);
  factors.slots = slots_of(run.forward.tokens, run.forward.sequences, chunk_);
  return factors;
}

Status check_prepare(std::string_view name, const Problem& problem, const PrepareTuning& tuning,
                     const device::Device& device) {
  if (problem.wy_chunk != 0 && problem.wy_chunk != tuning.chunk) {
    return {Code::unsupported,
            fmt::format("strategy {}: chunk={}, but w and u are wanted of chunks of wy_chunk = {}",
                        name, tuning.chunk, problem.wy_chunk)};
  }
  const int ratio = tuning.prepare_threads / tuning.chunk;
  if (ratio < 2 || ratio > 8) {
    return {Code::unsupported,
            fmt::format("strategy {}: prepare_threads={} with chunk={}: must be 2 to 8 times chunk",
                        name, tuning.prepare_threads, tuning.chunk)};
  }
  const int bytes = abi::chunk::prepare_shared_bytes(problem::shape_of(problem), tuning);
  if (static_cast<std::size_t>(bytes) > device.shared_per_block) {
    return {Code::unsupported,
            fmt::format("strategy {}: chunk={} prepare_threads={} need {} bytes of shared memory a "
                        "block in the prepare stage; {} gives {}",
                        name, tuning.chunk, tuning.prepare_threads, bytes, device.name,
                        device.shared_per_block)};
  }
  const std::int64_t slots = slots_of(problem.max_tokens, problem.max_sequences, tuning.chunk);
  if (slots > std::numeric_limits<std::int32_t>::max()) {
    return {
        Code::unsupported,
        fmt::format("strategy {}: max_tokens={} and max_sequences={} make {} chunks, more than a "
                    "grid holds; a larger chunk makes fewer",
                    name, problem.max_tokens, problem.max_sequences, slots)};
  }
  return {};
}

Status check_blocks(std::string_view name, const Problem& problem, int shards) {
  // Factors of at most 2^31, 2^16 and 2^10: no overflow.
  const std::int64_t blocks =
      static_cast<std::int64_t>(problem.max_sequences) * problem.value_heads * shards;
  if (blocks <= std::numeric_limits<std::int32_t>::max()) return {};
  return {Code::unsupported,
          fmt::format(
              "strategy {}: max_sequences={} with HV={} and {} shards of V make {} blocks, more "
              "than a grid holds; fewer sequences a run do",
              name, problem.max_sequences, problem.value_heads, shards, blocks)};
}

namespace {

// What a kernel is specialised on, and the length of the sequences it leaves where there is one.
std::string prelude_of(const abi::Shape& shape, tunable::Values values, int short_tokens) {
  if (short_tokens > 1) values.emplace_back("short_tokens", short_tokens);
  return compose::prelude(shape, values);
}

// A block a chunk slot and value head.
void bind_prepare(const Problem& problem, const FactorSlices& slices, std::int64_t early_blocks,
                  const Run& run, Launch& launch) {
  const abi::chunk::Factors factors = slices.at(run);
  launch.grid[0] = run.forward.tokens == 0 ? 0 : static_cast<unsigned>(factors.slots);
  launch.grid[1] = static_cast<unsigned>(problem.value_heads);
  launch.set(abi::chunk::PrepareArgs{
      .in = problem::inputs_of(problem, run.forward),
      .factors = factors,
      .lets_begin = factors.slots * problem.value_heads <= early_blocks ? 1 : 0,
      .w = run.forward.w,
      .u = run.forward.u});
}

}  // namespace

compose::Stage prepare_stage(const Problem& problem, const PrepareTuning& tuning,
                             const FactorSlices& slices) {
  const abi::Shape shape = problem::shape_of(problem);
  compose::Stage stage;
  stage.name = "prepare";
  stage.file = "chunk/prepare.cu";
  stage.entry = "kda_chunk_prepare";
  stage.prelude =
      prelude_of(shape, {{"chunk", tuning.chunk}, {"prepare_threads", tuning.prepare_threads}},
                 tuning.short_tokens);
  stage.threads = static_cast<unsigned>(tuning.prepare_threads);
  stage.shared_bytes = static_cast<std::size_t>(abi::chunk::prepare_shared_bytes(shape, tuning));
  stage.bind = [problem, slices](const Run& run, Launch& launch) {
    bind_prepare(problem, slices, 0, run, launch);
  };
  return stage;
}

int Cut::chunks(const Forward& forward, int chunk) const {
  const std::int64_t sequences = std::max(forward.sequences, 1);
  const std::int64_t count = std::clamp<std::int64_t>(most / sequences, 1, segments);
  const std::int64_t tokens = count * chunk;  // of one chunk a segment
  const std::int64_t chunks = (forward.tokens / sequences + tokens - 1) / tokens;
  return static_cast<int>(std::max<std::int64_t>(chunks, 1));
}

namespace {

// By as many groups a block as fit, on what chains leave of the device.
compose::Stage walking_stage(const Problem& problem, const device::Device& device,
                             const FactorSlices& slices, const Beside& beside, bool flags) {
  const abi::Shape shape = problem::shape_of(problem);
  const int groups = abi::factors::most_groups(shape, static_cast<int>(device.shared_per_block));
  compose::Stage stage;
  stage.name = "prepare";
  stage.file = "chunk/prepare_walking.cu";
  stage.entry = "kda_chunk_prepare_walking";
  stage.overlaps_previous = true;
  tunable::Values values = {{"groups", groups}};
  if (flags) values.emplace_back("flags", 1);
  if (beside.cut.exists()) values.emplace_back("abreast", 1);
  stage.prelude = prelude_of(shape, values, beside.short_tokens);
  stage.threads = static_cast<unsigned>(abi::factors::threads(shape) * groups);
  stage.shared_bytes = static_cast<std::size_t>(abi::factors::group_bytes(shape, groups)) *
                       static_cast<std::size_t>(groups);
  stage.bind = [problem, slices, groups, beside, all = device.multiprocessors](const Run& run,
                                                                               Launch& launch) {
    const bool apart = beside.short_tokens > 1;
    const abi::chunk::Factors factors = slices.at(run);
    const int sequences = std::max(run.forward.sequences, 1);
    // Segments a sequence, which groups take abreast.
    int count = 1;
    int segment = 0;
    if (beside.cut.exists()) {
      segment = beside.cut.chunks(run.forward, abi::factors::chunk);
      const std::int64_t tokens = std::int64_t{segment} * abi::factors::chunk;
      count = static_cast<int>((run.forward.tokens / sequences + tokens - 1) / tokens);
      count = std::max(count, 1);
    }
    const std::int64_t tiles = factors.slots * problem.value_heads;
    const std::int64_t most = (all - beside.chains.of(sequences)) * beside.preparers / 100;
    const int blocks = static_cast<int>(std::max<std::int64_t>(std::min(most, tiles), 1));
    const int step = blocks * groups;
    const int rows = step / problem.value_heads / count;
    const abi::chunk::Walk walk = {.heads = step % problem.value_heads,
                                   .sequences = apart ? 0 : rows % sequences,
                                   .chunks = apart ? rows : rows / sequences,
                                   .ahead = beside.ahead ? 1 : 0};
    launch.grid[0] = run.forward.tokens == 0 ? 0 : static_cast<unsigned>(blocks);
    launch.set(abi::chunk::PrepareArgs{.in = problem::inputs_of(problem, run.forward),
                                       .factors = factors,
                                       .walk = walk,
                                       .segment = segment,
                                       .segments = step / problem.value_heads % count});
  };
  return stage;
}

}  // namespace

compose::Stage hopper_prepare_stage(const Problem& problem, const device::Device& device,
                                    const PrepareTuning& tuning, const FactorSlices& slices,
                                    bool walking, std::int64_t early_blocks) {
  if (!prepares_by_group(problem, device, tuning.chunk)) {
    return prepare_stage(problem, tuning, slices);
  }
  if (walking) {
    const Beside nothing = {.chains = {0, 0}, .short_tokens = tuning.short_tokens, .ahead = true};
    return walking_stage(problem, device, slices, nothing, false);
  }
  const abi::Shape shape = problem::shape_of(problem);
  compose::Stage stage = prepare_stage(problem, tuning, slices);
  stage.file = "chunk/prepare_group.cu";
  stage.entry = "kda_chunk_prepare_group";
  stage.overlaps_previous = true;
  stage.prelude = prelude_of(shape, {{"groups", 1}}, tuning.short_tokens);
  stage.threads = static_cast<unsigned>(abi::factors::threads(shape));
  stage.shared_bytes = static_cast<std::size_t>(abi::factors::group_bytes(shape, 1));
  stage.bind = [problem, slices, early_blocks](const Run& run, Launch& launch) {
    bind_prepare(problem, slices, early_blocks, run, launch);
  };
  return stage;
}

compose::Stage prepare_beside_stage(const Problem& problem, const device::Device& device,
                                    const FactorSlices& slices, const Beside& beside) {
  return walking_stage(problem, device, slices, beside, true);
}

namespace {

double heads_of(const Problem& problem) {
  return static_cast<double>(problem.max_sequences) * problem.value_heads;
}

// Tokens a head, chunks filled up.
double padded_tokens(const Problem& problem, int chunk) {
  const double length = static_cast<double>(problem.max_tokens) / problem.max_sequences;
  return std::ceil(length / chunk) * chunk;
}

// States in and out, and at checkpoints on the way.
double state_bytes(const Problem& problem) {
  const double states = (problem.initial_state ? 1 : 0) + (problem.final_state ? 1 : 0) +
                        checkpoints_of(problem, mean_length(problem));
  return heads_of(problem) * problem.key_dim * problem.value_dim *
         abi::bytes_of(problem::shape_of(problem).state_type) * states;
}

// Of groups whose products have split operands, where 2.05 is of others: 24 and 32 heads of 8192
// tokens whose writes may be two take 261 and 311 us, one stage after the other (an H200).
constexpr double kWithCare = 2.5;

// The prepare stage's instructions, given what 32 tokens of 128 channels take a multiprocessor.
double instruction_microseconds(const Problem& problem, const device::Device& device, int chunk,
                                double microseconds) {
  const double work = heads_of(problem) * padded_tokens(problem, chunk) / 32 *
                      std::max(problem.key_dim, 32) / 128 *
                      (problem.qkv_type == DType::f32 ? 1.4 : 1);  // 8 heads of 8192 tokens 95 us
  return microseconds * work / std::max(device.multiprocessors, 1);
}

}  // namespace

double factor_microseconds(const Problem& problem, const device::Device& device, int chunk) {
  const double bytes = abi::bytes_of(problem::shape_of(problem).qkv_type);
  const double factors = heads_of(problem) * padded_tokens(problem, chunk) * bytes *
                         (8.0 * problem.key_dim + 4.0 * problem.value_dim);
  const double traffic = (factors + state_bytes(problem)) / device.memory_bandwidth * 1e6;
  return std::max(traffic, instruction_microseconds(problem, device, chunk, 4.4));
}

double prepare_microseconds(const Problem& problem, const device::Device& device, int chunk) {
  double each = 4.4;
  if (prepares_plainly(problem, device, chunk)) {
    each = 2.05;
  } else if (prepares_by_group(problem, device, chunk)) {
    each = kWithCare;
  }
  return instruction_microseconds(problem, device, chunk, each);
}

double stream_microseconds(const Problem& problem, const device::Device& device, int chunk) {
  constexpr double reached = 0.8;  // of the bandwidth
  const double bytes = abi::bytes_of(problem::shape_of(problem).qkv_type);
  const double moved = heads_of(problem) * padded_tokens(problem, chunk) * bytes *
                           (3.3 * problem.key_dim + 2.0 * problem.value_dim) +
                       state_bytes(problem);
  return moved / (reached * device.memory_bandwidth) * 1e6;
}

double slower_memory(const device::Device& device) {
  constexpr double kBandwidth = 4.8e12;  // an H200's, bytes a second
  return device.memory_bandwidth < kBandwidth
             ? std::pow(kBandwidth / std::max(device.memory_bandwidth, 1e9), 0.4)
             : 1.0;
}

// 256 chunks of 32 tokens take 428 us with V = 100, 733 with V = 33 (8 heads on an H100, commit
// 8980ef8 and the next; one element at a time they took 3700).
double by_hand_microseconds(const Problem& problem, int chunk) {
  if (problem.value_dim % 8 == 0) return 0.0;
  return (problem.value_dim % 2 == 0 ? 0.05 : 0.088) * chunk;
}

}  // namespace kda::strategy
