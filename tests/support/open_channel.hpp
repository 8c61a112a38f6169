// A state that is small in one channel, which stays open, beside another that is written and then
// cleared by its gates: what is left in the end is nothing beside most of what was there before.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kda/kda.hpp"
#include "reference/recurrence.hpp"
#include "reference/tensors.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"

namespace kda::test {

// A sequence of so many segments of `each` tokens, keys that are channels.  Each head has an open
// channel of its own, 8 turn + head, which begins as 1 in one V column, and one that is cleared,
// which begins as 1 in all.  All gates of the second segment's first 16 tokens leave 2^-15, and of
// each later one's nothing in the channel to be cleared.  Then that is written, and cleared some
// hundreds of tokens later.
class OpenChannel {
 public:
  static constexpr int kHeads = 8;

  OpenChannel(int segments, std::int64_t each, int key_dim = 128, int turn = 0)
      : K_(key_dim),
        turn_(turn),
        trial_(complete(kda::test::trial(
            "beta_logit=0 beta_most_1=1 h0=0 V=128 H=8 HV=8 K=" + std::to_string(key_dim),
            {segments * each}))),
        tensors_(Truth(trial_).tensors()) {
    const std::int64_t tokens = segments * each;
    for (reference::Bytes* all : {&tensors_.q, &tensors_.k, &tensors_.v, &tensors_.beta}) {
      std::memset(all->data(), 0, all->size());
    }
    std::fill(tensors_.A_log.begin(), tensors_.A_log.end(), 0.0F);
    std::fill(tensors_.dt_bias.begin(), tensors_.dt_bias.end(), 0.0F);
    for (std::int64_t row = 0; row < tokens * kHeads * K_; ++row) put(tensors_.g, row, kStays);
    for (int head = 0; head < kHeads; ++head) fill(head, segments, each);
    truth_ = reference::recurrence(reference::reference_inputs(tensors_));
  }

  const Trial& trial() const { return trial_; }
  const reference::Tensors& tensors() const { return tensors_; }

  // The state is read by the last tokens alone.  Head by head, as each has a channel of its own.
  void check(const reference::Outputs& out) const {
    const std::size_t row = std::size_t{kHeads} * V, state = static_cast<std::size_t>(K_) * V;
    const std::size_t first = out.o.size() - std::size_t{kReads} * row;
    for (std::size_t head = 0; head < kHeads; ++head) {
      INFO("head " << head << ", turn " << turn_ << " of K = " << K_);
      CHECK(error(out.o, truth_.o, first + head * V, kReads, row, V) < 0.02);
      CHECK(error(out.final_state, truth_.final_state, head * state, 1, 0, state) < 0.02);
    }
  }

  // That the open channel is all that is left, in one V column.
  void check_truth() const {
    std::size_t at = 0;
    for (int head = 0; head < kHeads; ++head) {
      for (int channel = 0; channel < K_; ++channel) {
        for (int column = 0; column < V; ++column) {
          const double x = truth_.final_state[at++];
          const bool is_left = channel == open(head) && column == own_column(head);
          if (is_left ? std::abs(x * 0x1p15 - 1) > 0.05 : std::abs(x) > 1e-30) {
            FAIL("head " << head << " channel " << channel << " column " << column << ": " << x);
          }
        }
      }
    }
    CHECK(at == truth_.final_state.size());
  }

 private:
  static constexpr int V = 128;
  static constexpr std::int64_t kKeeps = 640;  // tokens from a segment's begin
  static constexpr std::int64_t kReads = 500;

  // In bf16; of gates the values whose sigmoid times -5 is a token's log decay.
  static constexpr std::uint16_t kOne = 0x3f80;
  static constexpr std::uint16_t kStays = 0xc2c8;   // -100: 0
  static constexpr std::uint16_t kFades = 0xbff3;   // -1.9: -0.65
  static constexpr std::uint16_t kCloses = 0x4200;  // 32: -5

  int open(int head) const { return (8 * turn_ + head) % K_; }
  int cleared(int head) const { return (open(head) + K_ / 2 + 3) % K_; }
  int elsewhere(int head) const { return (open(head) + K_ / 4 + 1) % K_; }  // never written
  int own_column(int head) const { return (13 * (8 * turn_ + head) + 5) % V; }

  void fill(int head, int segments, std::int64_t each) {
    const std::int64_t tokens = segments * each;
    for (std::int64_t t = 0; t < tokens; ++t) {
      set(tensors_.k, t, head, elsewhere(head));
      set(tensors_.q, t, head, t < tokens - kReads ? elsewhere(head) : open(head));
    }
    write(0, head, open(head), own_column(head), own_column(head) + 1);
    write(1, head, cleared(head), 0, V);
    for (int segment = 1; segment < segments; ++segment) {
      const std::int64_t begin = segment * each;
      write(begin - 1, head, cleared(head), 0, V);
      for (int t = 0; t < 16; ++t) {
        if (segment > 1) gate(begin + t, head, cleared(head), kCloses);
        for (int channel = 0; segment == 1 && channel < K_; ++channel) {
          gate(begin + t, head, channel, kFades);
        }
        gate(begin + kKeeps + t, head, cleared(head), kCloses);
      }
      write(begin + 15, head, cleared(head), 0, V);  // before any look, whatever the chunk
    }
  }

  static void put(reference::Bytes& to, std::int64_t at, std::uint16_t x) {
    std::memcpy(to.data() + at * 2, &x, sizeof x);
  }
  std::int64_t row(std::int64_t token, int head) const { return token * kHeads + head; }
  void set(reference::Bytes& rows, std::int64_t token, int head, int channel) const {
    std::memset(rows.data() + row(token, head) * K_ * 2, 0, static_cast<std::size_t>(K_) * 2);
    put(rows, row(token, head) * K_ + channel, kOne);
  }
  void gate(std::int64_t token, int head, int channel, std::uint16_t x) {
    put(tensors_.g, row(token, head) * K_ + channel, x);
  }
  void write(std::int64_t token, int head, int channel, int column, int end) {
    set(tensors_.k, token, head, channel);
    for (; column < end; ++column) put(tensors_.v, row(token, head) * V + column, kOne);
    put(tensors_.beta, row(token, head), kOne);
  }

  // Of `count` pieces of so many values, `step` apart.
  static double error(const std::vector<double>& x, const std::vector<double>& exact,
                      std::size_t from, std::int64_t count, std::size_t step, std::size_t values) {
    double off = 0, all = 0;
    for (; count > 0; --count, from += step) {
      for (std::size_t i = from; i < from + values; ++i) {
        off += (x[i] - exact[i]) * (x[i] - exact[i]);
        all += exact[i] * exact[i];
      }
    }
    REQUIRE(all > 0);
    return std::sqrt(off / all);
  }

  int K_, turn_;
  Trial trial_;
  reference::Tensors tensors_;
  reference::Outputs truth_;
};

inline void check_open_channel(const Gpu& gpu, const OpenChannel& input, const char* strategy,
                               const char* tuning) {
  INFO(strategy << " " << tuning << " | " << to_text(input.trial()));
  const auto plan = Plan::make(input.trial().problem, {.strategy = strategy, .tuning = tuning});
  REQUIRE(plan);
  Rig rig(gpu, input.trial(), input.tensors());
  CHECK(rig.run(*plan) == "");
  input.check(rig.outputs());
}

// By a tuning of two segments.
inline void check_every_open_channel(const Gpu& gpu, const char* strategy, const char* tuning) {
  for (const int key_dim : {64, 128}) {
    for (int turn = 0; turn < key_dim / OpenChannel::kHeads; ++turn) {
      check_open_channel(gpu, OpenChannel(2, 1280, key_dim, turn), strategy, tuning);
    }
  }
}

}  // namespace kda::test
