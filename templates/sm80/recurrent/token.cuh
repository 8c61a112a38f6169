// A token's way into the recurrence.  A warp fetches it as it lies in memory while tokens before it
// are at work; once its turn comes, the same warp normalises and activates it into shared memory,
// in f32, for the whole block.
#pragma once

#include "abi/recurrent.h"
#include "base/slots.cuh"
#include "base/tensor.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "ptx/flag.cuh"
#include "step/gate.cuh"
#include "step/normalize.cuh"

namespace kda::recurrent {

template <abi::Shape shape, abi::recurrent::Tuning tune>
struct Stage {
  static constexpr abi::recurrent::Geometry geometry = abi::recurrent::geometry_of(shape, tune);

  // Channels past K are zero.
  alignas(16) float decay[geometry.tokens][geometry.padded_key_dim];
  alignas(16) float k[geometry.tokens][geometry.padded_key_dim];
  alignas(16) float q[geometry.tokens][geometry.padded_key_dim];  // times scale
  float v[geometry.tokens][geometry.block_columns];
  float beta[geometry.tokens];
  float qk[geometry.tokens];  // q . k
  i64 slot[geometry.tokens];  // where the state after the token goes; draft_states only
};

KDA_DEVICE float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

// The tokens of one sequence and value head.
template <abi::Shape shape, abi::recurrent::Tuning tune>
struct Tokens {
  static constexpr abi::recurrent::Geometry geometry = abi::recurrent::geometry_of(shape, tune);
  static constexpr int pairs = ceil_div(geometry.padded_key_dim, 64);        // of channels, a lane
  static constexpr int lane_columns = ceil_div(geometry.block_columns, 32);  // a lane

  struct Raw {
    typename element<shape.qkv_type>::pair q[pairs];
    typename element<shape.qkv_type>::pair k[pairs];
    typename element<shape.gate_type>::pair g[pairs];
    storage<shape.qkv_type> v[lane_columns];
    storage<shape.beta_type> beta;
    i64 slot;
  };

  const abi::Inputs& in;
  const abi::StatePool& pool;
  int n;
  i64 q, k, v, g, beta;  // offsets of the first token's rows
  int block_column;
  int lane;
  bool paired;
  float log_rate;
  float bias[2 * pairs];

  KDA_DEVICE Tokens(const abi::Inputs& inputs, const abi::StatePool& states, int sequence,
                    i64 begin, int head, int first_column)
      : in(inputs),
        pool(states),
        block_column(first_column),
        lane(static_cast<int>(threadIdx.x) % 32) {
    turn_to(sequence, begin, head);
    paired = is_paired<shape.qkv_type>(in.q, shape.key_dim) &&
             is_paired<shape.qkv_type>(in.k, shape.key_dim) &&
             is_paired<shape.gate_type>(in.g, shape.key_dim);
  }

  // To the tokens of another sequence.
  KDA_DEVICE void turn_to(int sequence, i64 begin, int head) {
    n = sequence;
    const int shared_head = head / shape.group;
    q = offset_of<shape.varlen>(in.q, n, begin, shared_head);
    k = offset_of<shape.varlen>(in.k, n, begin, shared_head);
    v = offset_of<shape.varlen>(in.v, n, begin, head);
    g = offset_of<shape.varlen>(in.g, n, begin, head);
    beta = offset_of<shape.varlen>(in.beta, n, begin, head);
  }

  // Apart from the constructor, so that the first token's loads need not wait for these.
  KDA_DEVICE void load_gate(int head) {
    log_rate = step::log_gate_rate<shape>(in.A_log, head);
#pragma unroll
    for (int i = 0; i < 2 * pairs; ++i) {
      const int c = channel(i / 2) + i % 2;
      bias[i] = c < shape.key_dim ? step::gate_bias<shape>(in.dt_bias, head, c) : 0.0F;
    }
  }

  // First channel of a lane's pair.
  KDA_DEVICE int channel(int pair) const { return 64 * pair + 2 * lane; }

  KDA_DEVICE void fetch(Raw& raw, i64 token) const {
    const i64 q_row = q + token * in.q.token;
    const i64 k_row = k + token * in.k.token;
    const i64 g_row = g + token * in.g.token;
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const int c = channel(i);
      raw.q[i] = fetch_channels<shape.qkv_type>(in.q.data, q_row, c, shape.key_dim, paired);
      raw.k[i] = fetch_channels<shape.qkv_type>(in.k.data, k_row, c, shape.key_dim, paired);
      raw.g[i] = fetch_channels<shape.gate_type>(in.g.data, g_row, c, shape.key_dim, paired);
    }
    const auto* v_row = static_cast<const storage<shape.qkv_type>*>(in.v.data) + v +
                        token * in.v.token + block_column;
#pragma unroll
    for (int i = 0; i < lane_columns; ++i) {
      const int column = 32 * i + lane;
      const bool inside =
          column < geometry.block_columns && block_column + column < shape.value_dim;
      raw.v[i] = inside ? v_row[column] : storage<shape.qkv_type>(0);
    }
    raw.beta =
        static_cast<const storage<shape.beta_type>*>(in.beta.data)[beta + token * in.beta.token];
    if constexpr (shape.draft_states) raw.slot = Slots<shape>::kept(pool, pool.indices, n, token);
  }

  // Starts bringing a token to the L2; a warp, a line of 128 bytes a lane.
  KDA_DEVICE void prefetch(i64 token) const {
    constexpr int tensors = 4;
    constexpr int lines = 32 / tensors;  // up to 256 channels of f32
    const int line = lane % lines * 128;
    const auto bring = [&](const abi::Tensor& tensor, i64 row, int width, int element_bytes) {
      const char* from = static_cast<const char*>(tensor.data) + row * element_bytes;
      if (line < width * element_bytes) ptx::prefetch(from + line);
    };
    constexpr int bytes = abi::bytes_of(shape.qkv_type);
    const int which = lane / lines;
    if (which == 0) bring(in.q, q + token * in.q.token, shape.key_dim, bytes);
    if (which == 1) bring(in.k, k + token * in.k.token, shape.key_dim, bytes);
    if (which == 2) {
      bring(in.g, g + token * in.g.token, shape.key_dim, abi::bytes_of(shape.gate_type));
    }
    if (which == 3) {
      const int columns = smaller(geometry.block_columns, shape.value_dim - block_column);
      bring(in.v, v + token * in.v.token + block_column, columns, bytes);
    }
  }

  // Row t of the stage, by one warp.
  KDA_DEVICE void activate(Stage<shape, tune>& stage, int t, const Raw& raw) const {
    float2 query[pairs];
    float2 key[pairs];
    float qq = 0.0F;
    float kk = 0.0F;
    float qk = 0.0F;
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      query[i] = element<shape.qkv_type>::unpack(raw.q[i]);
      key[i] = element<shape.qkv_type>::unpack(raw.k[i]);
      qk += query[i].x * key[i].x + query[i].y * key[i].y;
      qq += query[i].x * query[i].x + query[i].y * query[i].y;
      kk += key[i].x * key[i].x + key[i].y * key[i].y;
    }
    qk = sum_of_warp(qk);
    float q_factor = in.scale;
    float k_factor = 1.0F;
    if constexpr (shape.l2norm_qk) {
      q_factor *= step::unit_factor(sum_of_warp(qq));
      k_factor = step::unit_factor(sum_of_warp(kk));
    }
    const float rate = step::rate_of(log_rate);
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const int c = channel(i);
      if (c >= geometry.padded_key_dim) continue;
      const float2 gate = element<shape.gate_type>::unpack(raw.g[i]);
      store_pair<abi::DType::f32>(stage.q[t], c, query[i].x * q_factor, query[i].y * q_factor);
      store_pair<abi::DType::f32>(stage.k[t], c, key[i].x * k_factor, key[i].y * k_factor);
      store_pair<abi::DType::f32>(stage.decay[t], c, decay(c, gate.x, rate, bias[2 * i]),
                                  decay(c + 1, gate.y, rate, bias[2 * i + 1]));
    }
#pragma unroll
    for (int i = 0; i < lane_columns; ++i) {
      const int column = 32 * i + lane;
      if (column < geometry.block_columns) {
        stage.v[t][column] = element<shape.qkv_type>::to_float(raw.v[i]);
      }
    }
    if (lane == 0) {
      stage.beta[t] = step::write_strength<shape>(element<shape.beta_type>::to_float(raw.beta));
      stage.qk[t] = qk * (q_factor * k_factor);
      if constexpr (shape.draft_states) stage.slot[t] = raw.slot;
    }
  }

 private:
  KDA_DEVICE float decay(int c, float gate, float rate, float channel_bias) const {
    return c < shape.key_dim ? step::decay<shape>(gate, rate, channel_bias, in.lower_bound) : 0.0F;
  }
};

}  // namespace kda::recurrent
