#include "strategy/chunk_wgmma_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/factors.h"
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

bool memory_hides(const device::Device& device) { return device.memory_bandwidth >= 4e12; }

namespace {

// How many times as long a chain's products take of wider keys: 256 chunks of K = 256 205 us on an
// H100 where K = 128 takes 135.
double wide_keys(const Problem& problem) {
  return 1.0 + std::max(problem.key_dim - 128, 0) / 256.0;
}

// And of f16, whose operands' range is looked after, or of Ak in two terms: 256 chunks of K = 128
// 185 and 124 us by one warpgroup a block for 105, by two 260 and 206 for 182 (an H200).
struct Care {
  double one, two;
};
Care care_of(const Problem& problem) {
  if (problem.qkv_type == DType::f16) return {.one = 1.8, .two = 1.5};
  if (abi::chunk::writes_twice(problem::shape_of(problem))) return {.one = 1.17, .two = 1.12};
  return {.one = 1.0, .two = 1.0};
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
  const bool beside = tuning.stages_at_once > 1 && tuning.warpgroups == 1 && memory_hides(device);
  const double each = beside ? std::max(2.4e-5 * bytes - 0.235, 0.1) : 0.165 + 4.5e-6 * bytes;
  return each * checkpoints_of(problem, tokens);
}

// What a wave of blocks takes for short sequences beside a long one: 256 decodes beside 8192
// tokens, 16 heads, take 390 us by blocks two to a multiprocessor and 509 by two warpgroups each
// (measured on an H200); other blocks of one warpgroup are taken to lie between.
double short_microseconds(const Problem& problem, const Tuning& tuning) {
  if (tuning.warpgroups > 1) return kShortMicroseconds;
  return abi::chunk_wgmma::resident_blocks(problem::shape_of(problem), tuning) > 1 ? 2.2 : 3.3;
}

// The factors, then the chain of chunks of one sequence in waves of blocks or its traffic: 24 and
// 64 heads of 8192 tokens take 209 and 431 us by one warpgroup a block, 32, 48 and 64 by two 312,
// 369 and 438 (an H200).
double one_by_one_microseconds(const Problem& problem, const device::Device& device,
                               const Tuning& tuning) {
  const Care care = care_of(problem);
  const double products =
      (0.1 + 0.011 * tuning.chunk) * (tuning.warpgroups == 1 ? care.one : 1.42 * care.two);
  const double step =
      std::max(wide_keys(problem) * products, by_hand_microseconds(problem, tuning.chunk));
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
// take alone; and to what power the stages' times are added up, as they hinder each other.
struct Rates {
  double one, two;  // microseconds
  double prepare;
  double power;
};

// How many times as long groups take of a pack's rows, and of several sequences not in the order of
// the chains.  A mixed pack's prefill lies between.
double packed_rows(const Problem& problem) {
  if (!problem.varlen) return 1.0;
  if (is_mixed(problem)) return 1.1;
  return problem.max_sequences > 2 ? 1.32 : 1.06;
}

// What other gates than bounded ones of 16 bits cost prepare: 24 heads of 8192 tokens, which wait
// for it, 157 and 162 us by softplus, of 16 and 32 bits, 143 and 149 of log decays and 153.5 by
// bounded gates of 32 bits for 148.
double by_gate(const Problem& problem) {
  const bool wide = problem.gate_type == DType::f32;
  switch (problem.gate) {
    case Gate::softplus:
    case Gate::logsigmoid:
      return wide ? 1.09 : 1.065;
    case Gate::log_decay:
      return wide ? 1.0 : 0.965;
    default:
      return wide ? 1.035 : 1.0;
  }
}

// A fit of 240 times of an H200, 3% off: dense runs of 512 to 131072 tokens and packs of one
// sequence, 8 to 48 heads, by 72 to 100 percent (tools/results/log/chunk_wgmma.md, "One set of
// rates").
Rates rates_of(const Problem& problem) {
  const double packed = packed_rows(problem) * by_gate(problem);
  const Care care = care_of(problem);
  // Of K = 64 three groups fit a multiprocessor, not four.
  if (problem.key_dim <= 64) {
    return {
        .one = 0.286 * care.one, .two = 0.42 * care.two, .prepare = 1.47 * packed, .power = 5.0};
  }
  // With checkpoints to send the stages hinder each other more, and two warpgroups have a ring of
  // four.
  const bool copies = abi::chunk_wgmma::copies_checkpoints(problem::shape_of(problem));
  // With care three fit beside, and alone.
  const bool plain = abi::factors::serves(problem::shape_of(problem));
  return {.one = 0.41 * care.one,
          .two = (copies ? 0.77 : 0.71) * care.two,
          .prepare = (plain ? 0.87 : 0.99) * packed,
          .power = copies ? 4.0 : 5.0};
}

AtOnce at_once_parts(const Problem& problem, const device::Device& device, const Tuning& tuning,
                     std::int64_t chains, const Rates& rates) {
  // With a checkpoint every 512 tokens half of the columns take 147 us for 143.
  const double halves = tuning.columns < 64 ? 1.03 : 1.0;
  const double products = tuning.warpgroups == 1 ? halves * rates.one : rates.two;
  const double step =
      std::max(wide_keys(problem) * products, by_hand_microseconds(problem, tuning.chunk));
  const double all = std::max(device.multiprocessors, 1);
  const double left = std::max((all - static_cast<double>(chains)) * tuning.preparers / 100, 1.0);
  const double longest = longest_length(problem);
  return {step * (longest / tuning.chunk + 1) +
              checkpoints_microseconds(problem, device, tuning, longest),
          rates.prepare * prepare_microseconds(problem, device, tuning.chunk) * all / left};
}

// Log decays of 32 bits, whose groups are far ahead of two warpgroups' chains unless they are the
// slower stage: 32 heads of 8192 and 16,384 tokens take 218 and 415 us by 72 percent, where groups
// take 203 and 406, 227 and 460 by 86, 229 and 454 by 100, by one warpgroup and 100 221 and 449;
// but of 4096 119, 112 and 118; and a pack of 8192 222, 234 and 223 (an H200; elsewhere not
// measured).
bool runs_far_ahead(const Problem& problem, const device::Device& device, const Tuning& tuning,
                    const AtOnce& parts) {
  return memory_hides(device) && problem.gate == Gate::log_decay &&
         problem.gate_type == DType::f32 &&
         !abi::chunk_wgmma::copies_checkpoints(problem::shape_of(problem)) &&
         tuning.warpgroups > 1 && parts.chain > 150;
}
bool holds_groups_back(const Problem& problem, const device::Device& device, const Tuning& tuning,
                       const AtOnce& parts) {
  return !problem.varlen && runs_far_ahead(problem, device, tuning, parts);
}

// Start and first chunk, sooner of short runs (32 heads of 128, 256 and 512 tokens 11.9, 14.8 and
// 22.4 us), then the slower of the two; where they are alike each waits for the other now and then.
double at_once_microseconds(const Problem& problem, const device::Device& device,
                            const Tuning& tuning, std::int64_t chains, const Rates& rates) {
  AtOnce parts = at_once_parts(problem, device, tuning, chains, rates);
  // The fewer factors come from an H100's memory the sooner groups are done (preparers_of).
  if (!memory_hides(device)) parts.prepare *= tuning.preparers / 100.0;
  // Groups that are held back hinder nobody.
  const bool held_back =
      tuning.preparers == 72 && holds_groups_back(problem, device, tuning, parts);
  const double power = held_back ? 20.0 : rates.power;
  const double both = std::pow(parts.chain, power) + std::pow(parts.prepare, power);
  const double length = std::min(usual_length(problem) / 2048, 1.0);
  const double start = tuning.warpgroups > 1 ? 10.0 + 2.0 * length : 8.0 + 2.5 * length;
  return start + std::pow(both, 1.0 / power);
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
    const AtOnce parts = at_once_parts(prefill, device, tuning, chains, rates_of(problem));
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
                              chain_blocks(problem, device, tuning).of(problem.max_sequences),
                              rates_of(problem));
}

// Whether groups bring their next tiles into the L2: what groups gain the chains lose, as both wait
// for memory.  H = 16, whose chains take 1.4 times as long, 132 us with and 129 without; 12 heads
// of 4 x 2048, whose chains wait for prepare, 91 with and 94 without.
bool prepares_ahead(const Problem& problem, const device::Device& device, Tuning tuning) {
  if (is_mixed(problem)) return true;
  tuning.preparers = 100;  // as it was measured, of dense rows
  Rates rates = rates_of(problem);
  rates.prepare /= packed_rows(problem);
  const AtOnce parts = at_once_parts(problem, device, tuning, blocks_of(problem, tuning), rates);
  return parts.chain < 1.35 * parts.prepare;
}

// Percent of what chains leave that prepares.  Groups that are far ahead of the chains have their
// factors come from memory and not from the L2, so as few prepare as are done some 10 us before the
// chains, or of runs of a hundred us and more with them: 32 heads of 8192 tokens take an H200 203
// and 213 us by 86 and 100, as a pack 203 and 211, by bounded gates of 32 bits 205 and 221.
// Checkpoints want what memory moves, too, so of those as few as keep up: 24 heads with one every
// 64 and 256 tokens take 208 and 201 us by 72, 224 and 173 by 86, 227 and 185 by 100.  An H100 has
// less of a memory: 16 and 24 heads take 135 and 210 us by 64, 140 and 189 by 72, 152 and 173 by
// 86, 155 and 188 by 100. In mixed packs decodes begin where nobody prepares.
// tools/results/log/chunk_wgmma.md has more.
int preparers_of(const Problem& problem, const device::Device& device, Tuning tuning) {
  const bool hides = memory_hides(device);
  const bool copies = abi::chunk_wgmma::copies_checkpoints(problem::shape_of(problem));
  // Of K = 64 24 heads with one every 64 tokens take 117 us by all, by 72 percent of them 135.
  const bool measured = hides && copies && problem.key_dim > 64;
  if (problem.checkpoint_tokens > 0 && !measured) return 100;
  if (is_mixed(problem)) return hides ? 100 : 86;
  tuning.preparers = 100;
  const AtOnce parts =
      at_once_parts(problem, device, tuning, blocks_of(problem, tuning), rates_of(problem));
  if (!hides) {
    const double share = parts.prepare / parts.chain;
    if (share >= 1.65) return 100;  // chains wait for every group
    if (share >= 1.1 || share < 0.55) return 86;
    return share >= 0.77 ? 72 : 64;
  }
  for (const int percent : {72, 86}) {
    const double later = percent < 86 ? 1.05 : problem.varlen ? 1.15 : 1.25;
    const double sooner = percent < 86 ? parts.chain : 1.08 * parts.chain;
    if (percent == 86 && problem.varlen && runs_far_ahead(problem, device, tuning, parts)) break;
    const double end = copies ? later * parts.chain : sooner - 10.0;
    if (parts.prepare <= end * percent / 100) return percent;
    if (parts.prepare <= 1.12 * parts.chain * percent / 100 &&
        holds_groups_back(problem, device, tuning, parts)) {
      return percent;
    }
  }
  return 100;
}

double microseconds(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  if (tuning.short_tokens > 1 && is_mixed(problem)) {
    return slower_memory(device) * apart_microseconds(problem, device, tuning);
  }
  return slower_memory(device) *
         (tuning.stages_at_once > 1
              ? at_once_microseconds(problem, device, tuning, blocks_of(problem, tuning),
                                     rates_of(problem))
              : one_by_one_microseconds(problem, device, tuning));
}

}  // namespace kda::strategy::chunk_wgmma_cost
