#include "strategy/chunk_wgmma_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "problem/shape.hpp"
#include "strategy/lengths.hpp"
#include "strategy/recurrent.hpp"

namespace kda::strategy::chunk_wgmma_cost {

int shards_of(const Problem& problem, const Tuning& tuning) {
  const int columns = abi::chunk_wgmma::columns(tuning);
  return (problem.value_dim + columns - 1) / columns;
}

std::int64_t blocks_of(const Problem& problem, const Tuning& tuning) {
  return static_cast<std::int64_t>(problem.max_sequences) * problem.value_heads *
         shards_of(problem, tuning);
}

ChainBlocks chain_blocks(const Problem& problem, const device::Device& device,
                         const Tuning& tuning) {
  const std::int64_t each = std::int64_t{problem.value_heads} * shards_of(problem, tuning);
  const std::int64_t all = device.multiprocessors;
  std::int64_t most = std::numeric_limits<unsigned>::max();
  if (tuning.short_tokens > 1) {
    most = tuning.stages_at_once > 1 ? std::max<std::int64_t>(all / 2 / each, 1) * each : all;
  }
  return {each, most};
}

namespace {

// How many times as long a chain's products take of wider keys: 256 chunks of K = 256 205 us on an
// H100 where K = 128 takes 135.
double wide_keys(const Problem& problem) {
  return 1.0 + std::max(problem.key_dim - 128, 0) / 256.0;
}

// Whether factors that have left the L2 come back about as fast as chains want them: from an H200's
// memory, not from an H100's.
bool memory_hides(const device::Device& device) { return device.memory_bandwidth >= 4e12; }

// Chains that send checkpoints, of which preparers_of() has measurements: of dense runs alone.  Of
// K = 64 groups are slower than the model knows: 24 heads with one every 64 tokens 147 us, by 64
// percent of them 217.
bool sends_measured(const Problem& problem, const device::Device& device) {
  return abi::chunk_wgmma::copies_checkpoints(problem::shape_of(problem)) && memory_hides(device) &&
         problem.key_dim > 64 && !problem.varlen;
}

constexpr int kFewSequences = 2;  // of four and more uneven ones segments take less

}  // namespace

bool is_measured_pack(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  return problem.varlen && problem.max_sequences <= kFewSequences && tuning.short_tokens == 1 &&
         memory_hides(device) && problem.key_dim > 64 && problem.key_dim <= 128;
}

namespace {

// Whether K and V are 64 at the most, and an H200 was measured, too: without checkpoints, dense,
// and packs of as few.
bool is_measured_small(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  return problem.key_dim <= 64 && problem.value_dim <= 64 && problem.checkpoint_tokens == 0 &&
         (!problem.varlen || problem.max_sequences <= kFewSequences) && tuning.short_tokens == 1 &&
         memory_hides(device);
}

// What checkpoints add to a chain of so many tokens that leaves them in shared memory: 0.31 us each
// of 32 KB, 0.21 to 0.25 of 16 KB, 0.18 of 8 KB.  Where groups prepare beside, and as few as
// preparers_of() says, up to 0.55 and 0.16 of 32 and 16 KB: 16 heads of 8192 tokens with one every
// 256, 128 and 64 take 152, 167 and 181 us by whole columns, 148, 151 and 163 by half of them, and
// with one every 1024 139 (measured on an H200).
double checkpoints_microseconds(const Problem& problem, const device::Device& device,
                                const Tuning& tuning, double tokens) {
  const abi::Shape shape = problem::shape_of(problem);
  if (!abi::chunk_wgmma::copies_checkpoints(shape)) return 0.0;
  const double bytes = abi::chunk_wgmma::checkpoint_bytes(shape, tuning);
  const bool few = sends_measured(problem, device) ||
                   (is_measured_pack(problem, device, tuning) && tuning.warpgroups == 1);
  const bool beside_few = tuning.stages_at_once > 1 && few;
  const double each = beside_few ? std::max(2.4e-5 * bytes - 0.235, 0.1) : 0.165 + 4.5e-6 * bytes;
  return each * checkpoints_of(problem, tokens);
}

// What a wave of blocks takes for short sequences beside a long one: 256 decodes beside 8192
// tokens, 16 heads, take 390 us by blocks two to a multiprocessor and 509 by two warpgroups each
// (measured on an H200); other blocks of one warpgroup are taken to lie between.
double short_microseconds(const Problem& problem, const Tuning& tuning) {
  if (tuning.warpgroups > 1) return kShortMicroseconds;
  return abi::chunk_wgmma::resident_blocks(problem::shape_of(problem), tuning) > 1 ? 2.2 : 3.3;
}

// The factors, then the chain of chunks of one sequence in waves of blocks or its traffic (measured
// on an H200).
double one_by_one_microseconds(const Problem& problem, const device::Device& device,
                               const Tuning& tuning) {
  const double step = std::max(wide_keys(problem) * (0.1 + 0.011 * tuning.chunk),
                               by_hand_microseconds(problem, tuning.chunk));
  const auto blocks = static_cast<double>(blocks_of(problem, tuning));
  const double waves = std::max(1.0, blocks / std::max(device.multiprocessors, 1));
  const auto one = [&](double tokens) {
    return step * (tokens / tuning.chunk + 1) +
           checkpoints_microseconds(problem, device, tuning, tokens);
  };
  const double longest = one(longest_length(problem));
  const double chain = is_mixed(problem) ? longest + waves * short_microseconds(problem, tuning)
                                         : std::max(longest, waves * one(mean_length(problem)));
  return 11.0 + prepare_microseconds(problem, device, tuning.chunk) +
         std::max(chain, stream_microseconds(problem, device, tuning.chunk));
}

// What both stages at once take, each for itself: the chain, and what is left of the device to
// prepare (measured on an H200).
struct AtOnce {
  double chain, prepare;  // microseconds
};

// What a chunk takes a chain of one warpgroup and of two, and groups beside chains of what they
// take alone; and to what power, times what, the stages' times are added up, as they hinder each
// other.
struct Rates {
  double one, two, prepare;
  double power, sum;
};

// As measured before rows gave room in the L2.  A pack's rows go by hand: 16 heads of 8192 tokens
// take 135 us for 126.  So do those of half the columns; with a checkpoint every 512 tokens these
// take 147 us for 143.
Rates rates_before(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  const double halves = tuning.columns < 64 && sends_measured(problem, device) ? 1.04 : 1.0;
  const double rows = problem.varlen ? 1.08 : halves;
  return {rows * 0.44, rows * 0.73, 0.86, 4.0, 1.05};
}

// And what was measured since, an H200: packs of one sequence of 8192 tokens and 8, 12, 24 and 32
// heads take 117, 118, 172 and 265 us by one warpgroup, 8 and 32 heads by two 194 and 209, where
// groups take 2.1 us a chunk.  With checkpoints to send the stages hinder each other more: with one
// every 1024 tokens 8, 12, 16, 24 and 32 heads take 125, 129, 138, 176 and 268 us, 32 by two
// warpgroups 233.  Of K = V = 64, of which three groups fit, dense 32 and 64 heads take 148 and 368
// us, 16 heads as a pack 90.
Rates rates_of(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (is_measured_pack(problem, device, tuning)) {
    const bool copies = abi::chunk_wgmma::copies_checkpoints(problem::shape_of(problem));
    return {0.40, 0.70, 1.02, copies ? 4.0 : 8.0, 1.02};
  }
  if (is_measured_small(problem, device, tuning)) {
    return {0.29, 0.50, problem.varlen ? 1.93 : 1.51, 8.0, 1.02};
  }
  return rates_before(problem, device, tuning);
}

AtOnce at_once_parts(const Problem& problem, const device::Device& device, const Tuning& tuning,
                     std::int64_t chains, const Rates& rates) {
  const double step =
      std::max(wide_keys(problem) * (tuning.warpgroups == 1 ? rates.one : rates.two),
               by_hand_microseconds(problem, tuning.chunk));
  const double all = std::max(device.multiprocessors, 1);
  const double left = std::max((all - static_cast<double>(chains)) * tuning.preparers / 100, 1.0);
  const double longest = longest_length(problem);
  return {step * (longest / tuning.chunk + 1) +
              checkpoints_microseconds(problem, device, tuning, longest),
          rates.prepare * prepare_microseconds(problem, device, tuning.chunk) * all / left};
}

// Start and first chunk, then the slower of the two; where they are alike each waits for the other
// now and then.  Dense runs of one warpgroup a block start sooner: 32 heads of 256 tokens take 16.3
// us for 18.4 of one stage after the other, 4 of 1024 take 23.7 for 24.4.
double at_once_microseconds(const Problem& problem, const device::Device& device,
                            const Tuning& tuning, std::int64_t chains) {
  const Rates rates = rates_of(problem, device, tuning);
  AtOnce parts = at_once_parts(problem, device, tuning, chains, rates);
  if (sends_measured(problem, device) && parts.prepare <= parts.chain) {
    // Fewer that still keep up make nobody wait (preparers_of).
    parts.prepare *= tuning.preparers / 100.0;
  }
  const double start = problem.varlen || tuning.warpgroups > 1 ? 14.0 : 11.5;
  const double both = std::pow(parts.chain, rates.power) + std::pow(parts.prepare, rates.power);
  return start + rates.sum * std::pow(both, 1.0 / rates.power);
}

// The prefill of a mixed pack, and its decodes beside the chains.  256 decodes beside 8192 tokens
// of 8, 16 and 32 heads take 146, 260 and 545 us at once, 64 beside 4096 73, 97 and 204 (an H200),
// one stage after the other 16 heads 289; and beside 8 of 1024 tokens 290 for 295: how many are
// long is not known.
double apart_microseconds(const Problem& problem, const device::Device& device,
                          const Tuning& tuning) {
  const Problem prefill = longest_alone(problem);
  const double decodes = decodes_microseconds(problem, device);
  if (tuning.stages_at_once > 1) {
    const std::int64_t chains = chain_blocks(problem, device, tuning).of(problem.max_sequences);
    const AtOnce parts =
        at_once_parts(prefill, device, tuning, chains, rates_before(prefill, device, tuning));
    // Decodes begin where prepare has ended.
    return std::max(long_microseconds(problem, device, tuning), 20.0 + parts.prepare + decodes);
  }
  const double prepare = prepare_microseconds(prefill, device, tuning.chunk);
  return std::max(one_by_one_microseconds(prefill, device, tuning),
                  35.0 + prepare + stream_microseconds(prefill, device, tuning.chunk) + decodes);
}

}  // namespace

double long_microseconds(const Problem& problem, const device::Device& device,
                         const Tuning& tuning) {
  return at_once_microseconds(longest_alone(problem), device, tuning,
                              chain_blocks(problem, device, tuning).of(problem.max_sequences));
}

// Whether groups bring their next tiles into the L2: what groups gain the chains lose, as both wait
// for memory.  H = 16, whose chains take 1.6 times as long, 132 us with and 129 without; 12 heads
// of 4 x 2048, whose chains wait for prepare, 91 with and 94 without.
bool prepares_ahead(const Problem& problem, const device::Device& device, Tuning tuning) {
  tuning.preparers = 100;  // as it was measured
  const AtOnce parts = at_once_parts(problem, device, tuning, blocks_of(problem, tuning),
                                     rates_before(problem, device, tuning));
  return is_mixed(problem) || parts.chain < 1.5 * parts.prepare;
}

// Percent of what chains leave that prepares.  Groups that are far ahead of the chains have their
// factors come from memory and not from the L2, which an H100's bandwidth does not hide: 16 heads
// of 8192 tokens 155, 152, 140 and 135 us by 100, 86, 72 and 64, 24 heads 188, 173, 189 and 210, 32
// by two warpgroups 280, 270, 234 and 243 (by one 226, 251, 298 and 329), 40 heads 314, 293, 291
// and 316, 12 heads of 2048 tokens 39.5, 38.7, 38.6 and 39.5.  An H200's does better: 32 heads 213,
// 203, 219 and 241 us, of 131072 tokens 3326, 3168, 3563 and 4197, 24 heads 148, 165, 192 and 215.
// Checkpoints want what memory moves, too, so of those as few prepare as keep up with the chains:
// an H200 takes 16 heads with one every 64 tokens, by half of the columns, 167, 163 and 178 us by
// 100, 86 and 72, with one every 1024 147, 140 and 139 by 100, 72 and 64, 24 heads with one every
// 64 227, 224, 208 and 228 by 100, 86, 72 and 64, but with one every 1024 167 and 199 by 100 and
// 72.  In mixed packs decodes begin where nobody prepares: a prefill of 8192 tokens and 16 heads
// beside 32, 64, 128 and 256 of them 168, 191, 226 and 317 us on an H100 by 86, 172, 196, 230 and
// 322 by 100.  Packs of one sequence of 32 heads by two warpgroups 221 and 209 us on an H200 by 86
// and 100, with a checkpoint every 1024 tokens 233 and 239, 24 heads with those 194 and 176, with
// one every 64 212 and 220, 16 heads with one every 1024 138 and 140.
int preparers_of(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  const bool hides = memory_hides(device);
  const bool sends = sends_measured(problem, device);
  const bool pack = is_measured_pack(problem, device, tuning);
  const bool copies = abi::chunk_wgmma::copies_checkpoints(problem::shape_of(problem));
  if (problem.checkpoint_tokens > 0 && !sends && !(pack && copies)) return 100;
  if (is_mixed(problem)) return hides ? 100 : 86;
  const AtOnce parts = at_once_parts(problem, device, tuning, blocks_of(problem, tuning),
                                     rates_of(problem, device, tuning));
  const double share = parts.prepare / parts.chain;
  if (pack || is_measured_small(problem, device, tuning)) {
    return share >= (copies ? 1.0 : 0.9) ? 100 : 86;
  }
  if (sends) {
    // By halves 12 heads take 154 us by 72 percent, 156 by 64.
    const int least = tuning.columns < 64 ? 72 : 64;
    for (const int percent : {64, 72, 86}) {
      if (percent >= least && share <= percent / 100.0) return percent;
    }
    return 100;
  }
  if (hides) return share >= 1.0 ? 100 : 86;
  if (share >= 1.5) return 100;  // chains wait for every group
  if (share >= 1.0 || share < 0.5) return 86;
  return share >= 0.7 ? 72 : 64;
}

double microseconds(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (tuning.short_tokens > 1 && is_mixed(problem)) {
    return slower_memory(device) * apart_microseconds(problem, device, tuning);
  }
  return slower_memory(device) *
         (tuning.stages_at_once > 1
              ? at_once_microseconds(problem, device, tuning, blocks_of(problem, tuning))
              : one_by_one_microseconds(problem, device, tuning));
}

}  // namespace kda::strategy::chunk_wgmma_cost
