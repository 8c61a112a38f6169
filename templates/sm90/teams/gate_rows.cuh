// g of half a chunk as a team's lanes take it, 16 tokens and 16 channels at a time: of channel
// lane / 4 and of the eighth from there the tokens 2 t and 2 t + 1, and those 8 on, t = lane % 4.
#pragma once

#include "ptx/flag.cuh"
#include "ptx/ldmatrix.cuh"
#include "sm90/slabs/gate.cuh"
#include "sm90/teams/team.cuh"

namespace kda::teams {

// Of 16 bits an element, from where it has been brought with k and q (load.cuh).
class PairRows {
 public:
  struct Raw {
    u32 x[4];

    KDA_DEVICE float2 operator()(int i) const { return slabs::Gate16::unpack(x[i]); }
  };

  template <class Place>
  KDA_DEVICE PairRows(const Team&, u32 at, const abi::Inputs&, const Place&, int) : at_(at) {}

  // Of a piece, given the bytes of bf16 before its k step; past the last one, of any.
  KDA_DEVICE u32 at(u32 step) const { return at_ ^ step % (steps * 32); }
  KDA_DEVICE void load(Raw& raw, u32 at) const { ptx::ldmatrix_x4_trans(raw.x, at); }

  template <class Place>
  static KDA_DEVICE void prefetch(const Team&, const abi::Inputs&, const Place&) {}

 private:
  u32 at_;
};

// Of 32 bits, for which a team has no room, from memory, a piece ahead.
class WordRows {
 public:
  struct Raw {
    float2 x[4];

    KDA_DEVICE float2 operator()(int i) const { return x[i]; }
  };

  template <class Place>
  KDA_DEVICE WordRows(const Team& team, u32, const abi::Inputs& in, const Place& place, int half)
      : token_(in.g.token),
        own_(static_cast<int>(team.lane().t) * 2),
        exist_(place.rows - half * half_tokens),
        first_(origin(team, in, place) + team.lane().g + (half * half_tokens + own_) * token_) {}

  KDA_DEVICE u32 at(u32 step) const { return step; }
  KDA_DEVICE void load(Raw& raw, u32 step) const {
    if (step >= steps * 32) return;
    const float* const at = first_ + step / 2;
    if (exist_ >= half_tokens) [[likely]] {
      load_if(raw, at, [](int) { return true; });
    } else {
      load_if(raw, at, [&](int token) { return own_ + token < exist_; });
    }
  }

  // A chunk's rows of the warp's channels to the L2.
  template <class Place>
  static KDA_DEVICE void prefetch(const Team& team, const abi::Inputs& in, const Place& place) {
    const int row = static_cast<int>(team.own);
    if (row >= place.rows) return;
    const float* g = origin(team, in, place) + row * in.g.token;
#pragma unroll
    for (int i = 0; i < wide; i += 32) ptx::prefetch(g + i);
  }

 private:
  template <class Place>
  static KDA_DEVICE const float* origin(const Team& team, const abi::Inputs& in,
                                        const Place& place) {
    return static_cast<const float*>(in.g.data) + place.g_origin(in) + team.warp * wide;
  }

  // exists(token), by number from the lane's first; one that does not exist does not decay.
  template <class Exists>
  KDA_DEVICE void load_if(Raw& raw, const float* at, const Exists& exists) const {
    const auto one = [&](int token, int channel) {
      return exists(token) ? at[token * token_ + channel] : slabs::closed_gate_word();
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = i % 2 * 8;
      raw.x[i] = make_float2(one(token, i / 2 * 8), one(token + 1, i / 2 * 8));
    }
  }

  const i64& token_;  // elements
  int own_;           // the lane's first token
  int exist_;
  const float* first_;  // of it
};

constexpr bool gates_by_word = shape.gate_type == abi::DType::f32;
using GateRows = either<gates_by_word, WordRows, PairRows>;

}  // namespace kda::teams
