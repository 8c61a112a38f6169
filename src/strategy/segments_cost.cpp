#include "strategy/segments_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/gates.hpp"
#include "strategy/lengths.hpp"
#include "strategy/segments_at_once.hpp"

namespace kda::strategy::segments_cost {
namespace {

// What the cost model counts.
struct Counts {
  double heads;     // sequences times value heads
  double chunks;    // of the longest sequence
  double segments;  // likewise
  double later;     // chunks of all heads that are not in a first segment
  double blocks;    // of the walk that have chunks
  int key_tiles;    // of 64 columns of T

  Counts(const Problem& problem, const Tuning& tuning)
      : heads(static_cast<double>(problem.max_sequences) * problem.value_heads),
        chunks(std::max(1.0, std::ceil(longest_length(problem) / tuning.chunk))),
        segments(std::ceil(chunks / tuning.segment)),
        key_tiles(abi::segments::key_tiles(problem::shape_of(problem))) {
    const abi::Shape shape = problem::shape_of(problem);
    const int units = abi::segments::units(shape, tuning.warpgroups);
    // A first segment has no T.
    const int values = std::min(units, abi::segments::value_tiles(shape));
    const double mean = std::max(1.0, std::ceil(mean_length(problem) / tuning.chunk));
    later = heads * std::max(0.0, mean - tuning.segment);
    double all = std::ceil(mean / tuning.segment);
    if (chunks > mean) {  // of sequences that differ; half of each one's last segment is empty
      later = std::max(later, problem.value_heads * (chunks - tuning.segment));
      all = std::max(
          {1.0, mean / tuning.segment + 0.5, 1.0 + (segments - 1) / problem.max_sequences});
    }
    blocks = heads * ((all - 1) * units + values);
  }
};

// All chunks of the segments, in waves of blocks.  Each takes longer than in a chain among few: the
// L2 and memory feed all that walk (0.58 and 0.87 us for 32 tokens on an H200; 0.45 and 0.73 among
// few).
double walk_microseconds(const Problem& problem, const device::Device& device, const Counts& counts,
                         const Tuning& tuning) {
  // Of f16, whose operands' range is looked after, 8 heads of 8192 tokens take 114 and 134 us
  // (strong and weak gates), for 86 and 105 of bf16 by factors that are made with the same care.
  const double kind = problem.qkv_type == DType::f16 ? 1.65 : 1.0;
  const double step =
      std::max(kind * (0.1 + 0.011 * tuning.chunk) * (tuning.warpgroups == 1 ? 1.28 : 1.92),
               by_hand_microseconds(problem, tuning.chunk));
  const double waves = std::ceil(counts.blocks / std::max(device.multiprocessors, 1));
  return 4.0 + waves * step * (std::min<double>(tuning.segment, counts.chunks) + 1);
}

// The states between segments, one after another, then what they add to all but the first.
double correct_microseconds(const Problem& problem, const device::Device& device,
                            const Counts& counts, const Tuning& tuning) {
  if (counts.segments <= 1) return 0;
  const double bytes = abi::bytes_of(problem::shape_of(problem).qkv_type);
  const double moved =
      counts.later * tuning.chunk * bytes * (problem.key_dim + 2.0 * problem.value_dim);
  return 8.0 + 0.6 * counts.key_tiles * (counts.segments - 2) +
         moved / (0.8 * device.memory_bandwidth) * 1e6;
}

// What checkpoints add to segments that end there: 16 and 32 heads of 8192 tokens with one every
// 1024 take 183 and 345 us for 154 and 277 without, 12 and 24 heads with one every 256 229 and 408
// for 137 and 259, 16 heads with one every 64 631 (an H200).
double checkpoints_microseconds(const Problem& problem, const Counts& counts) {
  return 0.14 * counts.heads * checkpoints_of(problem, mean_length(problem));
}

// Start and first chunk, then the chains and prepare beside them, which take more than
// chunk_wgmma's (12, 16 and 24 heads of 131072, 65536 and 131072 tokens 1315, 895 and 2570 us under
// weak gates), and the states before segments, of which nothing is left after some 110 chunks where
// gates hardly forget.  8 heads of 65536 tokens in four, five and six segments take 500, 470 and
// 485 us, under strong gates 444, 413 and 429 (an H200).
double at_once_microseconds(const Problem& problem, const device::Device& device,
                            const Tuning& tuning) {
  const double chunks =
      std::max(1.0, std::ceil(longest_length(problem) / tuning.chunk / tuning.segments));
  const double chain = (tuning.warpgroups == 1 ? 0.44 : 0.73) * (chunks + 1);
  const double all = std::max(device.multiprocessors, 1);
  const auto walking = static_cast<double>(
      segments_at_once::chain_blocks(problem, device, tuning).of(problem.max_sequences));
  const double prepare = 0.86 * prepare_microseconds(problem, device, tuning.chunk) * all /
                         std::max(all - walking, 1.0);
  // Of shorter segments something is left, and carried into the next: in 10 of 102 chunks 4 heads
  // take 207 us, one after another 172.
  constexpr double kGone = 110.0, kShort = 150.0;  // chunks
  const double carried = 8.0 + 0.5 * kGone * std::pow(std::max(1.0, kShort / chunks), 2);
  return slower_memory(device) *
         (14.0 + 1.11 * std::pow(std::pow(chain, 4) + std::pow(prepare, 4), 0.25) + carried);
}

}  // namespace

bool keeps_checkpoints(const Problem& problem, const Tuning& tuning) {
  return problem.checkpoint_tokens % (tuning.chunk * tuning.segment) == 0;
}

double microseconds(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (at_once(tuning)) return at_once_microseconds(problem, device, tuning);
  if (!keeps_checkpoints(problem, tuning)) return std::numeric_limits<double>::infinity();
  if (is_mixed(problem)) {
    const double blocks = static_cast<double>(problem.max_sequences) * problem.value_heads *
                          abi::segments::value_tiles(problem::shape_of(problem));
    return microseconds(longest_alone(problem), device, tuning) +
           blocks / std::max(device.multiprocessors, 1) * kShortMicroseconds;
  }
  const Counts counts(problem, tuning);
  // What is not cut chunk_wgmma does with less.
  const double start = counts.segments > 1 ? 6.0 : 14.0;
  const double walked = std::max(walk_microseconds(problem, device, counts, tuning),
                                 stream_microseconds(problem, device, tuning.chunk));
  return slower_memory(device) * (start + prepare_microseconds(problem, device, tuning.chunk) +
                                  walked + correct_microseconds(problem, device, counts, tuning) +
                                  checkpoints_microseconds(problem, counts));
}

// 8 heads of 8192 tokens take 73 us for 90; of 65536 walked beside prepare 413 for 470 (an H200).
double forgetting_share(const Problem& problem, const Tuning& tuning) {
  if (at_once(tuning)) return 0.88;
  return Counts(problem, tuning).segments > 1 ? 0.77 : 1.0;
}

double expected_microseconds(const Problem& problem, const device::Device& device,
                             const Tuning& tuning) {
  const double weak = microseconds(problem, device, tuning);
  return weak * (1 - forget_share(problem) * (1 - forgetting_share(problem, tuning)));
}

}  // namespace kda::strategy::segments_cost
