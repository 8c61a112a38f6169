// A state that is small in one channel, which stays open, beside another that is written and then
// cleared by its gates: what is left in the end is nothing beside most of what was there before.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "reference/recurrence.hpp"
#include "reference/tensors.hpp"
#include "support/catch.hpp"
#include "support/trials.hpp"

namespace kda::test {

// Sequences of so many segments of `each` tokens, one head, keys that are channels.  Channels 5 and
// 70 begin as 1.  All gates of the second segment's first 16 tokens leave 2^-15, and channel 5 of
// each later one's nothing.  Then 5 is written, and cleared some hundreds of tokens later.
class OpenChannel {
 public:
  static constexpr int kCleared = 5, kOpen = 70;

  OpenChannel(int segments, std::int64_t each)
      : trial_(complete(kda::test::trial("beta_logit=0 beta_most_1=1 h0=0 K=128 V=128 H=1 HV=1",
                                         {segments * each}))),
        tensors_(Truth(trial_).tensors()) {
    const std::int64_t tokens = segments * each;
    for (reference::Bytes* all : {&tensors_.v, &tensors_.beta}) {
      std::memset(all->data(), 0, all->size());
    }
    std::fill(tensors_.A_log.begin(), tensors_.A_log.end(), 0.0F);
    std::fill(tensors_.dt_bias.begin(), tensors_.dt_bias.end(), 0.0F);
    for (std::int64_t t = 0; t < tokens; ++t) {
      set(tensors_.k, t, kElsewhere);
      set(tensors_.q, t, t < tokens - kReads ? kElsewhere : kOpen);
      for (int channel = 0; channel < 128; ++channel) put(tensors_.g, t * 128 + channel, kStays);
    }
    write(0, kOpen);
    write(1, kCleared);
    for (int segment = 1; segment < segments; ++segment) {
      const std::int64_t begin = segment * each;
      write(begin - 1, kCleared);
      for (int t = 0; t < 16; ++t) {
        for (int channel = 0; channel < 128; ++channel) {
          if (segment == 1) put(tensors_.g, (begin + t) * 128 + channel, kFades);
        }
        if (segment > 1) clear(begin + t);
        clear(begin + kKeeps + t);
      }
      write(begin + 31, kCleared);
    }
    truth_ = reference::recurrence(reference::reference_inputs(tensors_));
  }

  const Trial& trial() const { return trial_; }
  const reference::Tensors& tensors() const { return tensors_; }

  // The state is read by the last tokens alone.
  void check(const reference::Outputs& out) const {
    CHECK(error(out.o, truth_.o, out.o.size() - std::size_t{kReads} * 128) < 0.02);
    CHECK(error(out.final_state, truth_.final_state, 0) < 0.02);
  }

 private:
  static constexpr int kElsewhere = 33;        // neither written nor closed
  static constexpr std::int64_t kKeeps = 640;  // tokens from a segment's begin
  static constexpr std::int64_t kReads = 500;

  // In bf16; of gates the values whose sigmoid times -5 is a token's log decay.
  static constexpr std::uint16_t kOne = 0x3f80;
  static constexpr std::uint16_t kStays = 0xc2c8;   // -100: 0
  static constexpr std::uint16_t kFades = 0xbff3;   // -1.9: -0.65
  static constexpr std::uint16_t kCloses = 0x4200;  // 32: -5

  static void put(reference::Bytes& to, std::int64_t at, std::uint16_t x) {
    std::memcpy(to.data() + at * 2, &x, sizeof x);
  }
  static void set(reference::Bytes& rows, std::int64_t token, int channel) {
    std::memset(rows.data() + token * 256, 0, 256);
    put(rows, token * 128 + channel, kOne);
  }
  void write(std::int64_t token, int channel) {
    set(tensors_.k, token, channel);
    for (int column = 0; column < 128; ++column) put(tensors_.v, token * 128 + column, kOne);
    put(tensors_.beta, token, kOne);
  }
  void clear(std::int64_t token) { put(tensors_.g, token * 128 + kCleared, kCloses); }

  static double error(const std::vector<double>& x, const std::vector<double>& exact,
                      std::size_t from) {
    double off = 0, all = 0;
    for (std::size_t i = from; i < x.size(); ++i) {
      off += (x[i] - exact[i]) * (x[i] - exact[i]);
      all += exact[i] * exact[i];
    }
    REQUIRE(all > 0);
    return std::sqrt(off / all);
  }

  Trial trial_;
  reference::Tensors tensors_;
  reference::Outputs truth_;
};

}  // namespace kda::test
