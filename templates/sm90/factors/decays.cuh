// The decays of a chunk as log2 sums D from the start of each half of 16 tokens, and the lengths of
// its rows of q and k.
#pragma once

#include "sm90/factors/careful.cuh"
#include "sm90/factors/incoming.cuh"
#include "sm90/factors/squares.cuh"

namespace kda {

constexpr float strongest_anchor = -120.0F;  // log2 decay whose inverse operands can hold

// Raw g of this thread's two channels, of a half's tokens in two parts: begin() before each, then
// by number in the half and in the chunk.
struct TileGate {  // from a tile
  const char* channel;

  KDA_DEVICE void begin(int) const {}
  KDA_DEVICE float2 operator()(int, int token) const {
    return load_pair<shape.gate_type>(channel, token * keys);
  }
};

// From where D will stand, all at once, as D overwrites what is not yet read.
struct HeldGate {
  using Gate = element<shape.gate_type>;
  typename Gate::pair pairs[half_tokens];

  KDA_DEVICE explicit HeldGate(const storage<shape.gate_type>* from) {
#pragma unroll
    for (int i = 0; i < half_tokens; ++i) {
      pairs[i] = *reinterpret_cast<const typename Gate::pair*>(from + i * slab);
    }
    __syncwarp();
  }
  KDA_DEVICE void begin(int) const {}
  KDA_DEVICE float2 operator()(int i, int) const { return Gate::unpack(pairs[i]); }
};

// From the end of where D will stand, part by part, in half of the registers.
struct PassingGate {
  using Gate = element<shape.gate_type>;
  const storage<shape.gate_type>* from;
  typename Gate::pair pairs[half_tokens / 2];

  KDA_DEVICE explicit PassingGate(const storage<shape.gate_type>* raw) : from(raw) {}
  KDA_DEVICE void begin(int part) {
#pragma unroll
    for (int i = 0; i < half_tokens / 2; ++i) {
      const int row = part * (half_tokens / 2) + i;
      pairs[i] = *reinterpret_cast<const typename Gate::pair*>(from + row * slab);
    }
    __syncwarp();
  }
  KDA_DEVICE float2 operator()(int i, int) const {
    return Gate::unpack(pairs[i % (half_tokens / 2)]);
  }
};

struct Decays : either<careful, CarefulSolve, Solve> {
  AnyGateScratch& shared;  // the base's, which is this where any of it is used

  KDA_DEVICE explicit Decays(Scratch& scratch)
      : either<careful, CarefulSolve, Solve>(scratch),
        shared(reinterpret_cast<AnyGateScratch&>(scratch)) {}

  // g of a half's tokens, by number in the half and in the chunk, to D and the decays of this
  // thread's two channels.  Returns whether the half's decay is too strong to anchor products at
  // its start.
  template <int parts_unrolled, class RawPair>
  KDA_DEVICE bool accumulate(RawPair&& raw, const step::LogDecay<shape>& x,
                             const step::LogDecay<shape>& y, int half, int channel,
                             int rows) const {
    float2 total = make_float2(0.0F, 0.0F);
    float* to = &shared.slices[channel / slab][half].decay[0][channel % slab];
    constexpr int tokens = half_tokens / 2;
#pragma unroll parts_unrolled
    for (int part = 0; part < 2; ++part) {
      const int token0 = half * half_tokens + part * tokens;
      raw.begin(part);
      float2 active[tokens];
#pragma unroll
      for (int i = 0; i < tokens; ++i) {
        const float2 g = raw(part * tokens + i, token0 + i);
        active[i] = make_float2(x.activation(g.x), y.activation(g.y));
      }
      if (token0 + tokens > rows) {  // what does not exist does not decay
#pragma unroll
        for (int i = 0; i < tokens; ++i) {
          if (token0 + i >= rows) active[i] = make_float2(0.0F, 0.0F);
        }
      }
#pragma unroll
      for (int i = 0; i < tokens; ++i) {
        total =
            make_float2(fmaf(active[i].x, x.depth, total.x), fmaf(active[i].y, y.depth, total.y));
        put(to, total);
        to += pitch;
      }
      if (part == 0) put(&shared.decays.middle_log[half][channel], total);
    }
    put(&shared.decays.whole_log[half][channel], total);
    put(&shared.whole(half)[channel], exp2_of(total));
    return fminf(total.x, total.y) < strongest_anchor;
  }

  // The same of g as a tile, visible to the whole group; in few instructions, as a block's only
  // chunk meets each for the first time.
  KDA_DEVICE bool accumulate_decays(const char* g, const Gates& gates, int rows) const {
    if (thread >= keys) return false;
    const int half = thread / (keys / 2);
    const int channel = gates.channel();
    return accumulate<1>(TileGate{g + channel * sizeof(storage<shape.gate_type>)}, gates.x, gates.y,
                         half, channel, rows);
  }

  // The same of g where D will stand, and beta; the warp's own copies of g have landed.
  KDA_DEVICE bool accumulate_decays(const Incoming& coming, float lower_bound, int rows) const {
    if (thread < chunk) shared.beta[thread] = coming.write_strength(thread, rows);
    const Line line{thread};
    if (!line.exists()) return false;
    const int half = line.half();
    const int channel = line.channel();
    either<RawGate::at_end, PassingGate, HeldGate> gate(RawGate::at(shared, half, channel));
    const step::LogDecay<shape> x(coming.rate(), coming.bias[0], lower_bound);
    const step::LogDecay<shape> y(coming.rate(), coming.bias[1], lower_bound);
    // clang-format would take these brackets for comparisons.
    // clang-format off
    return accumulate<RawGate::at_end ? 1 : 2>(gate, x, y, half, channel, rows);
    // clang-format on
  }

  // The same of the decays before and after the middles.
  KDA_DEVICE bool is_strong_by_middle() const {
    if (thread >= keys) return false;
    const int half = thread / (keys / 2);
    // Found as accumulate_decays has found it, which leaves it in a register.
    const int channel = tune.groups > 1 ? Line{thread}.channel() : Gates::channel();
    bool strong = false;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int c = channel + i;
      const float middle = shared.decays.middle_log[half][c];
      strong |= fminf(middle, shared.decays.whole_log[half][c] - middle) < strongest_anchor;
    }
    return strong;
  }

  // The warp's share of the squares.
  KDA_DEVICE void sum_squares(u32 buffer) const {
    const tile::Lane lane = this->lane();
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      kda::sum_squares(
          shared.decays.squares, lane, warp, half,
          [&](int ks) { return place(buffer + image.kd, half, ks); }, k_to_q);
    }
  }

  KDA_DEVICE float key_unit(int token) const {
    return kda::key_unit(shared.decays.squares, token, 1.0F);
  }
  KDA_DEVICE float query_unit(int token) const {
    return kda::query_unit(shared.decays.squares, token, 1.0F);
  }
};

}  // namespace kda
