// Strategy chunk_wgmma, stage 2: as strategy chunk's recurrence,
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// with each warpgroup holding 64 V columns of S^T as wgmma accumulators.  One more warp feeds the
// ring of factor tiles by bulk copies.  A warpgroup has up to four products in flight; only R and
// the update of S are on the chain from chunk to chunk.
#include "abi/chunk_wgmma.h"
#include "abi/shape.h"
#include "base/tensor.cuh"
#include "base/varlen.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/dependent.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma.cuh"
#include "step/state.cuh"
#include "tile/operand.cuh"
#include "tile/scale.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk_wgmma::Tuning tune = KDA_TUNING;

constexpr abi::DType type = shape.qkv_type;
constexpr int chunk = tune.chunk;
constexpr int stages = tune.load_stages;
constexpr int consumers = 128 * tune.warpgroups;  // threads
constexpr int threads = consumers + 32;
constexpr int keys = abi::chunk::factor_keys(shape);  // K with room
constexpr int values = shape.value_dim;
constexpr int columns = 64 * tune.warpgroups;  // V columns a block
constexpr int shards = ceil_div(values, columns);
constexpr int parts = abi::chunk::factor_parts(shape);
constexpr float writer_scale = abi::chunk::writer_scale(shape);

static_assert(type != abi::DType::f32, "wgmma takes 16-bit factors here");
static_assert(keys == 64 || keys == 128, "K must be 33 to 128");

using Factor = tile::Shared<type, chunk, keys>;
using Square = tile::Shared<type, chunk, chunk>;
using State = step::State<shape, 1, keys>;
using Scale = tile::Scale<type>;

constexpr int value_row = abi::chunk_wgmma::value_row_bytes(tune);
constexpr int slot_bytes = abi::chunk_wgmma::slot_bytes(shape, tune);

// What one block works on.
struct Task {
  Sequence sequence;
  int n, head, value0;  // value0: the block's first V column
  i64 slot;             // of the sequence's first chunk
  int chunks;
};

struct Ring {
  u32 slots;     // shared addresses
  u32 barriers;  // full, then empty, of each slot

  KDA_DEVICE u32 slot(int step) const { return slots + step % stages * slot_bytes; }
  KDA_DEVICE u32 full(int step) const { return barriers + step % stages * 8; }
  KDA_DEVICE u32 empty(int step) const { return barriers + (stages + step % stages) * 8; }
  static KDA_DEVICE u32 parity(int step) { return step / stages & 1; }
};

// The producer warp ------------------------------------------------------------------------------

// One chunk of v, rows and columns that do not exist as zeros: 16 bytes a copy, or element by
// element where v is not 16-byte aligned.
KDA_DEVICE void load_values(u32 to, const u16* v, i64 token, i64 left, int exist, bool vectored) {
  const int lane = threadIdx.x % 32;
  if (vectored) {
#pragma unroll
    for (int i = 0; i < chunk * columns / 8 / 32; ++i) {
      const int row = (i * 32 + lane) / (columns / 8);
      const int column = lane % (columns / 8) * 8;
      const bool there = row < left && column < exist;
      ptx::cp_async_16_or_zero(to + row * value_row + column * 2,
                               v + (there ? row * token + column : 0), there);
    }
  } else {
    for (int i = lane; i < chunk * columns; i += 32) {
      const int row = i / columns;
      const int column = i % columns;
      const u16 x = row < left && column < exist ? v[row * token + column] : u16(0);
      ptx::st_shared_u16(to + row * value_row + column * 2, x);
    }
  }
}

KDA_DEVICE void produce(const Ring& ring, const abi::chunk::RecurrenceArgs& args,
                        const Task& task) {
  const int lane = threadIdx.x % 32;
  const abi::Inputs& in = args.in;
  const bool vectored = is_vectored<type>(in.v, values);
  const int exist = smaller(values - task.value0, columns);
  const u16* v = static_cast<const u16*>(in.v.data) + task.value0 +
                 offset_of<shape.varlen>(in.v, task.n, task.sequence.begin, task.head);
  ptx::wait_for_previous();
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    const i64 tile = (task.slot + at) * in.value_heads + task.head;
    const char* images[] = {
        static_cast<const char*>(args.factors.kd), static_cast<const char*>(args.factors.qd),
        static_cast<const char*>(args.factors.ak), static_cast<const char*>(args.factors.ak_rest)};
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const int step = parts * at + part;
      if (step >= stages) ptx::mbarrier_wait(ring.empty(step), Ring::parity(step - stages));
      const u32 slot = ring.slot(step);
      const u32 side = slot + Factor::bytes;
      const u32 full = ring.full(step);
      constexpr u32 side_bytes[] = {0, Square::bytes, keys * 4, 0};
      if (lane == 0) {
        ptx::mbarrier_expect_tx(full, Factor::bytes + side_bytes[part]);
        ptx::bulk_load(slot, images[part] + tile * Factor::bytes, Factor::bytes, full);
        if (part == 1) {
          ptx::bulk_load(side, static_cast<const char*>(args.factors.aq) + tile * Square::bytes,
                         Square::bytes, full);
        } else if (part == 2) {
          ptx::bulk_load(side, args.factors.decay + tile * keys, keys * 4, full);
        }
      }
      if (part == 0) {
        const i64 first = static_cast<i64>(at) * chunk;
        load_values(side, v + first * in.v.token, in.v.token, task.sequence.length() - first, exist,
                    vectored);
      }
      if (part == 0 && vectored) {
        ptx::cp_async_arrive(full);
      } else {
        ptx::mbarrier_arrive(full);
      }
    }
  }
  ptx::cp_async_wait_all();
}

// The consumer warpgroups ------------------------------------------------------------------------

constexpr int chunk_tiles = chunk / 8;
using Accumulators = float[chunk_tiles][4];  // [V, C]

template <int count>
KDA_DEVICE float largest(const float (&x)[count][4]) {
  float m = 0.0F;
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) m = fmaxf(m, fabsf(x[i][e]));
  }
  return m;
}

// Keeps the compiler from moving uses of x across this point: a wgmma may be writing it.
template <int count>
KDA_DEVICE void hold(float (&x)[count][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(x[i][e])::"memory");
  }
}

// A operands of x, 16 columns each, in the scale's form.
template <int count>
KDA_DEVICE void pack(u32 (&a)[count / 2][4], const float (&x)[count][4], const Scale& scale) {
#pragma unroll
  for (int k = 0; k < count / 2; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = x[2 * k + i / 2] + i % 2 * 2;
      const float up = Scale::needed ? scale.up : 1.0F;
      a[k][i] = element<type>::pack(Scale::needed ? pair[0] * up : pair[0],
                                    Scale::needed ? pair[1] * up : pair[1]);
    }
  }
}

// acc[V, C] = A[V, K] factor[C, K]^T
KDA_DEVICE void read_state(Accumulators& acc, const u32 (&a)[keys / 16][4], u32 factor) {
  const ptx::WgmmaTile tile(factor, 128, 0, 1024);
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) {
    ptx::wgmma_m64k16<type, chunk, 0>::run(
        &acc[0][0], a[k], tile.at(k / 4 * Factor::panel_bytes + k % 4 * 32), k > 0);
  }
}

// r = v^T - r * down
KDA_DEVICE void subtract_from_values(Accumulators& r, u32 v, float down) {
  const int lane = threadIdx.x % 32;
  const int column0 = static_cast<int>(threadIdx.x) / 32 * 16;
  const u32 from = v + (lane % 8 + lane / 16 * 8) * value_row + (column0 + lane / 8 % 2 * 8) * 2;
#pragma unroll
  for (int c = 0; c < chunk_tiles; c += 2) {
    u32 x[4];
    ptx::ldmatrix_x4_trans(x, from + c * 8 * value_row);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = element<type>::unpack(x[i]);
      float* to = &r[c + i / 2][i % 2 * 2];
      to[0] = pair.x - to[0] * down;
      to[1] = pair.y - to[1] * down;
    }
  }
}

// o[C, V] = scale * acc^T, rows and columns that exist.  whole: all do, and pairs are aligned.
template <bool whole>
KDA_DEVICE void write_outputs(const Accumulators& acc, u16* o, i64 token, i64 left, int value0,
                              float scale, bool paired) {
  const tile::Lane lane;
#pragma unroll
  for (int c = 0; c < chunk_tiles; ++c) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 pair = ptx::movmatrix_trans(
          element<type>::pack(scale * acc[c][2 * half], scale * acc[c][2 * half + 1]));
      const int value = value0 + half * 8 + 2 * lane.t;
      const int row = c * 8 + lane.g;
      u16* to = o + row * token + value;
      if (whole) {
        *reinterpret_cast<u32*>(to) = pair;
      } else if (row < left) {
        if (paired) {
          if (value < values) *reinterpret_cast<u32*>(to) = pair;
        } else {
          if (value < values) to[0] = static_cast<u16>(pair);
          if (value + 1 < values) to[1] = static_cast<u16>(pair >> 16);
        }
      }
    }
  }
}

KDA_DEVICE void consume(const Ring& ring, const abi::chunk::RecurrenceArgs& args,
                        const Task& task) {
  const abi::Inputs& in = args.in;
  const tile::Lane lane;
  // This thread is done with a slot.
  const auto release = [&](int step) { ptx::mbarrier_arrive(ring.empty(step)); };
  const int value0 = task.value0 + static_cast<int>(threadIdx.x) / 32 * 16;
  const bool paired = is_paired<type>(args.out.o, values);
  u16* outputs = static_cast<u16*>(const_cast<void*>(args.out.o.data)) +
                 offset_of<shape.varlen>(args.out.o, task.n, task.sequence.begin, task.head);

  State state;
  auto& s = state.s[0];
  const i64 state_head = static_cast<i64>(task.n) * in.value_heads + task.head;
  if (in.tokens == 0) ptx::wait_for_previous();  // else the prepare stage did
  if constexpr (shape.initial_state) {
    state.load(args.out.initial_state, state_head, value0);
  } else {
    state.clear();
  }

  Accumulators r;
  Accumulators o;
  u32 s_operand[keys / 16][4];
  u32 r_operand[chunk / 16][4];
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    const int step = parts * at;
    Scale s_scale;
    if constexpr (Scale::needed) s_scale.choose(largest(s));
    pack(s_operand, s, s_scale);

    // S decays here, not under the products, which read the packed copy: ptxas waits for every
    // product in flight before it lets registers change that another product once wrote.
    ptx::mbarrier_wait(ring.full(step + 2), Ring::parity(step + 2));
    const u32 ak = ring.slot(step + 2);
#pragma unroll
    for (int k = 0; k < keys / 8; ++k) {
      const float2 d = ptx::ld_shared_f32x2(ak + Factor::bytes + (k * 8 + 2 * lane.t) * 4);
      s[k][0] *= d.x;
      s[k][1] *= d.y;
      s[k][2] *= d.x;
      s[k][3] *= d.y;
    }

    ptx::mbarrier_wait(ring.full(step), Ring::parity(step));
    ptx::mbarrier_wait(ring.full(step + 1), Ring::parity(step + 1));
    if constexpr (parts == 4) ptx::mbarrier_wait(ring.full(step + 3), Ring::parity(step + 3));
    hold(r);
    hold(o);
    ptx::wgmma_fence();
    read_state(r, s_operand, ring.slot(step));
    ptx::wgmma_commit();
    read_state(o, s_operand, ring.slot(step + 1));
    ptx::wgmma_commit();

    ptx::wgmma_wait<1>();
    hold(r);
    subtract_from_values(r, ring.slot(step) + Factor::bytes, s_scale.down);
    Scale r_scale;
    if constexpr (Scale::needed) r_scale.choose(largest(r));
    pack(r_operand, r, r_scale);
    release(step);
    if constexpr (Scale::needed) {
      ptx::wgmma_wait<0>();
      hold(o);
#pragma unroll
      for (int k = 0; k < keys / 8; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[k][e] *= r_scale.up * writer_scale;
      }
#pragma unroll
      for (int c = 0; c < chunk_tiles; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) o[c][e] *= s_scale.down * r_scale.up * writer_scale;
      }
      hold(o);
    }

    const ptx::WgmmaTile writer(ak, 128, Factor::panel_bytes, 1024);
    hold(s);
    ptx::wgmma_fence();
#pragma unroll
    for (int c = 0; c < chunk / 16; ++c) {
      ptx::wgmma_m64k16<type, keys, 1>::run(&s[0][0], r_operand[c], writer.at(c * 16 * 128), 1);
    }
    if constexpr (parts == 4) {
      const ptx::WgmmaTile rest(ring.slot(step + 3), 128, Factor::panel_bytes, 1024);
#pragma unroll
      for (int c = 0; c < chunk / 16; ++c) {
        ptx::wgmma_m64k16<type, keys, 1>::run(&s[0][0], r_operand[c], rest.at(c * 16 * 128), 1);
      }
    }
    ptx::wgmma_commit();
    const ptx::WgmmaTile aq(ring.slot(step + 1) + Factor::bytes, Square::row_bytes, 0,
                            8 * Square::row_bytes);
#pragma unroll
    for (int c = 0; c < chunk / 16; ++c) {
      ptx::wgmma_m64k16<type, chunk, 0>::run(&o[0][0], r_operand[c], aq.at(c * 32), 1);
    }
    ptx::wgmma_commit();

    ptx::wgmma_wait<1>();
    hold(s);
    release(step + 2);
    if constexpr (parts == 4) release(step + 3);
    if constexpr (Scale::needed) {
#pragma unroll
      for (int k = 0; k < keys / 8; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[k][e] *= r_scale.down / writer_scale;
      }
    }
    ptx::wgmma_wait<0>();
    hold(o);
    release(step + 1);

    const i64 first = static_cast<i64>(at) * chunk;
    const i64 left = task.sequence.length() - first;
    u16* to = outputs + first * args.out.o.token;
    const float scale = in.scale * r_scale.down / writer_scale;
    if (left >= chunk && paired && task.value0 + columns <= values) {
      write_outputs<true>(o, to, args.out.o.token, left, value0, scale, paired);
    } else {
      write_outputs<false>(o, to, args.out.o.token, left, value0, scale, paired);
    }
  }
  if constexpr (shape.final_state) state.store(args.out.final_state, state_head, value0);
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    kda_chunk_wgmma_recurrence(const __grid_constant__ abi::chunk::RecurrenceArgs args) {
  extern __shared__ __align__(1024) char memory[];

  const abi::Inputs& in = args.in;
  Task task;
  task.value0 = static_cast<int>(blockIdx.x % shards) * columns;
  task.head = static_cast<int>(blockIdx.x / shards % in.value_heads);
  task.n = static_cast<int>(blockIdx.x / shards / in.value_heads);
  if (in.tokens == 0) ptx::wait_for_previous();
  task.sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, task.n);
  task.slot = first_slot(task.sequence.begin, task.n, chunk);
  task.chunks = static_cast<int>((task.sequence.length() + chunk - 1) / chunk);

  const Ring ring{ptx::shared_address(memory), ptx::shared_address(memory) + stages * slot_bytes};
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      ptx::mbarrier_init(ring.full(i), 32);  // every lane of the producer
      ptx::mbarrier_init(ring.empty(i), consumers);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= consumers / 32) {
    produce(ring, args, task);
  } else {
    consume(ring, args, task);
  }
}

}  // namespace kda
