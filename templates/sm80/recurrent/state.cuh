// The part of one head's S that a thread keeps in registers.
//
// `lanes` lanes form a group: they share columns and divide the K channels among them.  Memory
// decides which lanes those are, for 16 bytes a lane and neighbouring lanes on neighbouring bytes:
//   [V, K]  the lanes of a group are neighbours, runs of 16 bytes along K;
//   [K, V]  the groups of a warp interleave, runs of 16 bytes along V.
// So a sum over K is a few shuffles, and where a group is in several warps, as in [K, V] all but
// the smallest are, an addition of what each leaves in shared memory.
#pragma once

#include "abi/recurrent.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "ptx/streaming.cuh"
#include "sm80/recurrent/shares.cuh"

namespace kda::recurrent {

// What the warps of a group have summed up, each of its channels.  Two places take turns, so that a
// step needs one barrier: who writes a place again has met all that read it in the step between.
template <abi::Shape shape, abi::recurrent::Tuning tune>
struct Sums {
  static constexpr abi::recurrent::Geometry geometry = abi::recurrent::geometry_of(shape, tune);
  struct Part {
    alignas(16) float predicted[geometry.block_columns];
    alignas(16) float o[geometry.block_columns];
  };
  Part part[2][geometry.key_warps];
};

// may_share: whether sums may end in shares.
template <abi::Shape shape, abi::recurrent::Tuning tune, bool may_share = true>
struct State {
  static constexpr abi::recurrent::Geometry geometry = abi::recurrent::geometry_of(shape, tune);
  static constexpr bool value_first = shape.state_value_first;
  static constexpr int lanes = tune.lanes;
  static constexpr int warp_lanes = geometry.warp_lanes;
  static constexpr int key_warps = geometry.key_warps;
  static constexpr int groups = 32 / warp_lanes;  // a warp
  static constexpr int unit = geometry.unit;
  static constexpr int channels = geometry.lane_channels;
  static constexpr int columns = tune.columns;
  static constexpr int units = channels * columns / unit;
  // Whether each lane ends with a share of its columns' sums, or with all of them.  Two columns of
  // one token gain nothing (64 sequences of 32 heads 68.7 us for 68.3); with draft_states the one
  // thing more that is held spills.
  static constexpr bool shares =
      may_share && key_warps == 1 && (columns != 2 || tune.stages == 2) && !shape.draft_states;
  static constexpr int neighbour = value_first ? 1 : groups;  // lanes to the group's next
  using Shares = recurrent::Shares<2 * columns, warp_lanes, neighbour>;
  static constexpr int outputs = shares ? Shares::own : columns;
  static_assert(columns % geometry.column_run == 0, "[K, V] needs whole 16-byte units of columns");
  static_assert(tune.threads / 32 % key_warps == 0,
                "a column's lanes are whole warps of the block");

  // As it lies in memory, unconverted: nothing waits for a load before the values are needed.
  struct Raw {
    uint4 unit[units];
  };

  float s[columns][channels];
  int part;          // which of the group's lanes this is
  int local_column;  // within the block, of columns[0]
  int block_column;  // the block's first column

  KDA_DEVICE explicit State(int slice) : block_column(slice * geometry.block_columns) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    part = value_first ? lane % lanes : warp % key_warps * warp_lanes + lane / groups;
    const int group = value_first ? lane / lanes : lane % groups;
    local_column = warp / key_warps * groups * columns + group * geometry.column_run;
  }

  // Channel of s[.][j].
  KDA_DEVICE int channel(int j) const {
    constexpr int run = geometry.channel_run;
    return j / run * (lanes * run) + part * run + j % run;
  }
  // Column of s[r][.], within the block.
  KDA_DEVICE int column(int r) const {
    constexpr int run = geometry.column_run;
    return local_column + r / run * (groups * run) + r % run;
  }

  // Unit u is s[r][j] and its next in memory.
  static KDA_DEVICE int first_row(int u) {
    return value_first ? u / (channels / unit) : u % (columns / geometry.column_run) * unit;
  }
  static KDA_DEVICE int first_channel(int u) {
    return value_first ? u % (channels / unit) * unit : u / (columns / geometry.column_run);
  }
  // Element e of unit u in the head's [V, K] or [K, V]; whether it exists.
  KDA_DEVICE int offset(int u, int e, bool& inside) const {
    const int c = channel(first_channel(u) + (value_first ? e : 0));
    const int v = block_column + column(first_row(u) + (value_first ? 0 : e));
    inside = c < shape.key_dim && v < shape.value_dim;
    return value_first ? v * shape.key_dim + c : c * shape.value_dim + v;
  }
  // Whether units lie on 16 bytes.
  static KDA_DEVICE bool is_vectored(const void* data) {
    constexpr int row = value_first ? shape.key_dim : shape.value_dim;
    return row % unit == 0 && reinterpret_cast<u64>(data) % 16 == 0;
  }

  // data: this head's state; unless it is wanted, zeros.
  KDA_DEVICE void fetch(Raw& raw, const storage<shape.state_type>* data, bool wanted) const {
    if (is_vectored(data)) {
#pragma unroll
      for (int u = 0; u < units; ++u) {
        bool inside;
        const int at = offset(u, 0, inside);
        raw.unit[u] = make_uint4(0, 0, 0, 0);
        if (inside && wanted) raw.unit[u] = ptx::load_streaming(data + at);
      }
      return;
    }
#pragma unroll
    for (int u = 0; u < units; ++u) {
      storage<shape.state_type> x[unit];
#pragma unroll
      for (int e = 0; e < unit; ++e) {
        bool inside;
        const int at = offset(u, e, inside);
        x[e] = inside && wanted ? data[at] : storage<shape.state_type>(0);
      }
      raw.unit[u] = join_unit<shape.state_type>(x);
    }
  }

  KDA_DEVICE void unpack(const Raw& raw) {
#pragma unroll
    for (int u = 0; u < units; ++u) unpack(u, raw.unit[u]);
  }

  // slice: the block's columns in shared memory, as they lie in this head's [V, K].
  KDA_DEVICE void take(const storage<shape.state_type>* slice) {
    static_assert(value_first, "only there do they lie together");
#pragma unroll
    for (int u = 0; u < units; ++u) {
      bool inside;
      const int at = offset(u, 0, inside) - block_column * shape.key_dim;
      unpack(u, inside ? *reinterpret_cast<const uint4*>(slice + at) : make_uint4(0, 0, 0, 0));
    }
  }

  KDA_DEVICE void clear() {
#pragma unroll
    for (int r = 0; r < columns; ++r) {
#pragma unroll
      for (int j = 0; j < channels; ++j) s[r][j] = 0.0F;
    }
  }

  KDA_DEVICE void store(storage<shape.state_type>* data) {
    if (is_vectored(data)) {
#pragma unroll
      for (int u = 0; u < units; ++u) {
        storage<shape.state_type> x[unit];
        pack(u, x);
        bool inside;
        const int first = offset(u, 0, inside);
        if (inside) ptx::store_streaming(data + first, join_unit<shape.state_type>(x));
      }
      return;
    }
#pragma unroll
    for (int u = 0; u < units; ++u) {
      storage<shape.state_type> x[unit];
      pack(u, x);
#pragma unroll
      for (int e = 0; e < unit; ++e) {
        bool inside;
        const int to = offset(u, e, inside);
        if (inside) data[to] = x[e];
      }
    }
  }

  // In a loop: its addresses are computed here, not before the loop and kept in registers.
  KDA_DEVICE void store_rarely(storage<shape.state_type>* data) const {
    State now = *this;
    asm volatile("" : "+r"(now.part), "+r"(now.local_column));
    now.store(data);
  }

  // One token: decays S, writes beta k (v - S^T k)^T and reads o = S^T q, as output.cuh wants it.
  // Both sums are over the decayed S, at once: after the write, S^T q has grown by (k . q) times
  // what was written.
  template <class Stage>
  KDA_DEVICE void step(float (&o)[outputs], const Stage& stage, int t, Sums<shape, tune>& sums) {
    float sum[2 * columns];  // S^T k, then S^T q
#pragma unroll
    for (float& x : sum) x = 0.0F;
#pragma unroll
    for (int j = 0; j < channels; j += 4) {
      const Four decay(&stage.decay[t][channel(j)]);
      const Four k(&stage.k[t][channel(j)]);
      const Four q(&stage.q[t][channel(j)]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int r = 0; r < columns; ++r) {
          s[r][j + i] *= decay.x[i];
          sum[r] += s[r][j + i] * k.x[i];
          sum[columns + r] += s[r][j + i] * q.x[i];
        }
      }
    }
    float write[columns];
    if constexpr (shares) {
      add_shares(o, write, sum, stage, t);
    } else {
      add_all(o, write, sum, stage, t, sums);
    }
#pragma unroll
    for (int j = 0; j < channels; j += 4) {
      const Four k(&stage.k[t][channel(j)]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int r = 0; r < columns; ++r) s[r][j + i] += k.x[i] * write[r];
      }
    }
  }

  // By shares: the first of its columns of which a lane has something, and whether that is an
  // output, of which no other lane of the group tells.
  KDA_DEVICE int first_own() const { return Shares::first(part) % columns; }
  KDA_DEVICE bool tells() const { return part >= lanes / 2 && part % Shares::sharers == 0; }

 private:
  // Four neighbouring floats of shared memory.
  struct Four {
    float x[4];
    KDA_DEVICE explicit Four(const float* at) {
      const float4 all = *reinterpret_cast<const float4*>(at);
      x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
    }
  };

  // Each lane's sums, given those over its channels; what all columns write; o.
  template <class Stage>
  KDA_DEVICE void add_all(float (&o)[columns], float (&write)[columns], float (&sum)[2 * columns],
                          const Stage& stage, int t, Sums<shape, tune>& sums) const {
#pragma unroll
    for (int step = neighbour; step < neighbour * warp_lanes; step *= 2) {
#pragma unroll
      for (int r = 0; r < columns; ++r) {
        sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], step);
        sum[columns + r] += __shfl_xor_sync(0xffffffffU, sum[columns + r], step);
      }
    }
    if constexpr (key_warps > 1) add_warps(sum, sums.part[t % 2]);
#pragma unroll
    for (int r = 0; r < columns; ++r) {
      write[r] = stage.beta[t] * (stage.v[t][column(r)] - sum[r]);
      o[r] = sum[columns + r] + stage.qk[t] * write[r];
    }
  }

  // The same by shares: lanes that have sums S^T k find what is written, the others, which have
  // S^T q of the same columns, o.
  template <class Stage>
  KDA_DEVICE void add_shares(float (&o)[Shares::own], float (&write)[columns],
                             float (&sum)[2 * columns], const Stage& stage, int t) const {
    Shares::add(sum, part);
    float own[Shares::own];
#pragma unroll
    for (int i = 0; i < Shares::own; ++i) {
      own[i] = stage.beta[t] * (stage.v[t][column(first_own() + i)] - sum[i]);
      o[i] = sum[i] + stage.qk[t] * Shares::other_half(own[i]);
    }
#pragma unroll
    for (int r = 0; r < columns; ++r) write[r] = Shares::from(own, r);
  }

  // The sums of all warps that share these columns, in place of this one's.
  template <class Parts>
  KDA_DEVICE void add_warps(float (&sum)[2 * columns], Parts& parts) const {
    static_assert(geometry.column_run % 4 == 0, "[K, V] keeps whole units of columns");
    if (part % warp_lanes == 0) {
      auto& own = parts[part / warp_lanes];
#pragma unroll
      for (int r = 0; r < columns; r += 4) {
        const int at = column(r);
        *reinterpret_cast<float4*>(own.predicted + at) =
            make_float4(sum[r], sum[r + 1], sum[r + 2], sum[r + 3]);
        const float* const o = sum + columns + r;
        *reinterpret_cast<float4*>(own.o + at) = make_float4(o[0], o[1], o[2], o[3]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < columns; r += 4) {
      const int at = column(r);
#pragma unroll 2
      for (int warp = 0; warp < key_warps; ++warp) {
        const Four p(parts[warp].predicted + at);
        const Four q(parts[warp].o + at);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& o = sum[columns + r + i];
          sum[r + i] = warp == 0 ? p.x[i] : sum[r + i] + p.x[i];
          o = warp == 0 ? q.x[i] : o + q.x[i];
        }
      }
    }
  }

  KDA_DEVICE void unpack(int u, const uint4& raw) {
    float x[unit];
    unpack_unit<shape.state_type>(x, raw);
#pragma unroll
    for (int e = 0; e < unit; ++e) at(u, e) = x[e];
  }
  KDA_DEVICE void pack(int u, storage<shape.state_type> (&x)[unit]) {
#pragma unroll
    for (int e = 0; e < unit; ++e) x[e] = element<shape.state_type>::from_float(at(u, e));
  }
  KDA_DEVICE float& at(int u, int e) {
    return s[first_row(u) + (value_first ? 0 : e)][first_channel(u) + (value_first ? e : 0)];
  }
};

}  // namespace kda::recurrent
