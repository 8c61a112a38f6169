// Strategy segments, stage 2: what each segment but a sequence's last does to the state, a block a
// (segment, value head, unit of columns).  Columns of S evolve each on its own:
//   R = V - Kd S;   S = diag(decay) S + Ak^T R
// so V columns that start from nothing give S_local, and the columns of the identity, with v = 0,
// give the transition T.  The first segment starts from the initial state and needs no T.
#include "abi/segments.h"
#include "abi/shape.h"
#include "ptx/barrier.cuh"
#include "ptx/dependent.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/producer.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/segments/segment.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk_wgmma::Tuning tune = KDA_TUNING;

using Chain = chunk_wgmma::Chain<shape, tune, false>;
using Tiles = segments::Tiles<shape>;
using chunk_wgmma::Task;
using Scale = Chain::Scale;
using Image = tile::Shared<abi::DType::bf16, Chain::keys, Chain::keys>;  // of T^T

constexpr int chunk = Chain::chunk;
constexpr int keys = Chain::keys;
constexpr int value_units = abi::segments::value_units(shape, tune);
constexpr int units = value_units + abi::segments::key_units(shape, tune);
constexpr float writer_scale = Chain::writer_scale;

// T below this is nothing: times the largest state, it is below the last bit of the smallest.
constexpr u32 nothing = (127U - 64U) << 23;  // 2^-64

struct Unit {
  bool identity;  // K columns, else V columns
  u32 stop;       // shared address: the consumers want no more chunks
};

// The warp that feeds factors, one thread of it.
KDA_DEVICE void feed_factors(const Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                             const Task& task, const Unit& unit) {
  ptx::wait_for_previous();
  const int stride = args.in.value_heads;
  i64 tile = task.slot * stride + task.head;
  Chain::Cursor to;
  int at = 0;
#pragma unroll 1
  for (; at < task.chunks; ++at) {
    ring.wait_empty(to);
    // Consumers set it before they release a slot.
    if (unit.identity && ptx::ld_shared_u32(unit.stop) != 0) break;
    chunk_wgmma::load_factors<Chain>(ring, to, args.factors, tile);
    tile += stride;
    to.next();
  }
  // Nothing may land once the block has ended, whether or not it is still wanted.
  if (at < task.chunks) {
    Chain::Cursor landing;
    for (int i = 0; i < at; ++i) {
      if (i >= at - Chain::stages) ring.wait_full(landing);
      landing.next();
    }
  }
}

// Whether any of the warpgroups' columns is more than nothing; NaN is.
template <int count>
KDA_DEVICE bool is_alive(const float (&s)[count][4]) {
  u32 largest = 0;
#pragma unroll
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const u32 magnitude = __float_as_uint(s[k][e]) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
  }
  return ptx::barrier_vote_any(1, Chain::consumers, largest >= nothing);
}

// The state before the task's chunks becomes the one after them; false where nothing is left of it.
KDA_DEVICE bool consume(const Chain::Ring& ring, const Task& task, const Unit& unit,
                        Chain::State& state) {
  using chunk_wgmma::hold;
  auto& s = state.s[0];
  Chain::Accumulators r;
  u32 s_operand[keys / 16][4];
  u32 r_operand[chunk / 16][4];
  u32 v[Chain::chunk_tiles / 2][4] = {};  // the identity's stays zero
  float2 decay[keys / 8];
  constexpr auto slot = Chain::slot;
  Chain::Cursor here;
  constexpr bool early = Chain::stages > 1;            // a look at the next chunk
  constexpr bool fetch_early = early && Chain::roomy;  // and its decay and v
  const auto fetch = [&](Chain::Cursor from) {
    chunk_wgmma::load_decay(decay, ring.at(from) + slot.image.decay);
    if (!unit.identity) {
      chunk_wgmma::load_values_transposed<Chain>(
          v, ring.at(from) + slot.v + chunk_wgmma::own_rows<Chain>());
    }
  };
  ring.wait_full(here);
  if constexpr (fetch_early) fetch(here);
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    const u32 data = ring.at(here);
    if constexpr (!fetch_early) fetch(here);
    Scale s_scale;
    if constexpr (Scale::needed) s_scale.choose(chunk_wgmma::largest(s));
    chunk_wgmma::pack(s_operand, s, s_scale);
    if constexpr (!Scale::needed) chunk_wgmma::take_values<Chain>(r, v);
    chunk_wgmma::decay_state(s, decay);
    hold(r);
    ptx::wgmma_fence();
    chunk_wgmma::read_state<Chain, Scale::needed ? 1 : -1>(r, s_operand, data + slot.image.kd);
    ptx::wgmma_commit();
    const Chain::Cursor done = here;
    here.next();
    ptx::wgmma_wait<0>();
    hold(r);
    const bool arrived = ring.is_full(here);  // the answer comes under what follows
    if constexpr (Scale::needed) chunk_wgmma::subtract_from_values<Chain>(r, v, s_scale.down);
    Scale r_scale;
    if constexpr (Scale::needed) {
      r_scale.choose(chunk_wgmma::largest(r));
      chunk_wgmma::multiply(s, r_scale.up * writer_scale);
    }
    chunk_wgmma::pack(r_operand, r, r_scale);

    hold(s);
    ptx::wgmma_fence();
    chunk_wgmma::write_state<Chain>(s, r_operand, data + slot.image.ak);
    if constexpr (Chain::writes_twice) {
      chunk_wgmma::write_state<Chain>(s, r_operand, data + slot.image.ak_rest);
    }
    ptx::wgmma_commit();
    // Under these, where the ring holds it already: the next chunk's beginning.
    const bool more = at + 1 < task.chunks;
    if (early && more) {
      if (!arrived) ring.wait_full(here);
      if constexpr (fetch_early) fetch(here);
    }
    ptx::wgmma_wait<0>();
    hold(s);
    if constexpr (Scale::needed) chunk_wgmma::multiply(s, r_scale.down / writer_scale);

    const bool dead = unit.identity && at % 4 == 0 && !is_alive(s);
    if (dead && threadIdx.x == 0) ptx::st_shared_u32(unit.stop, 1);
    ring.release(done);
    if (dead) return false;
    if (!early && more) ring.wait_full(here);
  }
  return true;
}

// This warpgroup's 64 columns of T, rows of T^T, from row `row0` on.
KDA_DEVICE void store_transition(const abi::segments::Segments& segments, i64 head_slot, int row0,
                                 const Chain::State& state, bool alive) {
  using Element = element<abi::DType::bf16>;
  const tile::Lane lane;
  const i64 first = head_slot * Image::bytes;
  char* image = static_cast<char*>(segments.transition) + first;
  char* rest = static_cast<char*>(segments.transition_rest) + first;
  const int row = row0 + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane.g;
#pragma unroll
  for (int k = 0; k < keys / 8; ++k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* pair = state.s[0][k] + 2 * half;
      const u32 rounded = alive ? Element::pack(pair[0], pair[1]) : 0;
      const float2 kept = Element::unpack(rounded);
      const u32 lost = alive ? Element::pack(pair[0] - kept.x, pair[1] - kept.y) : 0;
      const u32 at = Image::at(row + half * 8, k * 8 + 2 * lane.t);
      *reinterpret_cast<u32*>(image + at) = rounded;
      *reinterpret_cast<u32*>(rest + at) = lost;
    }
  }
  if (threadIdx.x % 128 == 0) {
    segments.alive[head_slot * abi::segments::flags + row0 / 64] = alive ? 1 : 0;
  }
}

// Column i of the identity in the warp's row i, counted from `column0`.
KDA_DEVICE void set_identity(Chain::State& state, int column0) {
  const tile::Lane lane;
#pragma unroll
  for (int k = 0; k < keys / 8; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = column0 + lane.g + e / 2 * 8;
      const int key = k * 8 + 2 * lane.t + e % 2;
      state.s[0][k][e] = key == column && key < shape.key_dim ? 1.0F : 0.0F;
    }
  }
}

extern "C" __global__ void __launch_bounds__(Chain::threads, Chain::resident)
    kda_segments_states(const __grid_constant__ abi::segments::Args args) {
  extern __shared__ __align__(1024) char memory[];

  ptx::launch_dependents();
  const abi::Inputs& in = args.chain.in;
  const int number = static_cast<int>(blockIdx.x % units);
  const int head = static_cast<int>(blockIdx.x / units % in.value_heads);
  const i64 slot = blockIdx.x / units / in.value_heads;
  const segments::Segment segment =
      segments::segment_at<shape>(in, slot, args.segments.chunks * chunk);
  Unit unit;
  unit.identity = number >= value_units;
  if (!segment.exists() || segment.last() || (unit.identity && segment.index == 0)) {
    ptx::wait_for_previous();  // or the next stage would not wait for the prepare stage
    return;
  }

  Task task;
  task.sequence = segment.sequence;
  task.n = segment.n;
  task.head = head;
  task.value0 = (unit.identity ? number - value_units : number) * Chain::columns;
  task.first = static_cast<i64>(segment.index) * args.segments.chunks * chunk;
  task.slot = first_slot(segment.sequence.begin, segment.n, chunk) +
              static_cast<i64>(segment.index) * args.segments.chunks;
  task.chunks = args.segments.chunks;  // not the last: whole

  const Chain::Ring ring(memory);
  unit.stop = ring.barriers + 2 * Chain::stages * 8;
  if (threadIdx.x == 0) {
    ring.init(!unit.identity);
    ptx::st_shared_u32(unit.stop, 0);
  }
  __syncthreads();
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= Chain::consumers / 32) {
    const int number = warp - Chain::consumers / 32;
    if (number > 0) {
      if (!unit.identity && number <= Chain::row_warps) {
        chunk_wgmma::move_rows<Chain>(ring, args.chain, task, number - 1);
      }
    } else if (threadIdx.x % 32 == 0) {
      feed_factors(ring, args.chain, task, unit);
    }
    return;
  }

  Chain::State state;
  const int column0 = task.value0 + warp * 16;
  if (unit.identity) {
    set_identity(state, column0);
  } else if (shape.initial_state && segment.index == 0) {
    state.load(args.chain.out.initial_state, static_cast<i64>(task.n) * in.value_heads + head,
               column0);
  } else {
    state.clear();
  }
  const bool alive = consume(ring, task, unit, state);

  const int tile = task.value0 / 64 + warp / 4;  // of V columns, or of K columns
  if (unit.identity) {
    if (tile < keys / 64) {
      store_transition(args.segments, slot * in.value_heads + head, tile * 64, state, alive);
    }
  } else if (tile < Tiles::count) {
    segments::store_tile(state.s[0], Tiles::at(args.segments, slot, in.value_heads, head, tile));
  }
}

}  // namespace kda
