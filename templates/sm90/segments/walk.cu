// Strategy segments, stage 2: the chunks of every segment at once, a block a (segment, value head,
// unit).  Columns of S evolve each on its own:
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// so V columns that start from nothing give o_local and S_local, and the columns of the identity,
// with v = 0, give q~ and the transition T.  The first segment starts from the initial state and
// needs neither of these.  A warpgroup has 64 columns.  A unit of two has V columns and K columns,
// which take as long as each other or, once T has come to nothing, no time at all.
#include "abi/chunk_wgmma.h"
#include "abi/segments.h"
#include "abi/shape.h"
#include "base/element.cuh"
#include "base/segment.cuh"
#include "base/slots.cuh"
#include "base/tensor.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "ptx/barrier.cuh"
#include "ptx/dependent.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/special_registers.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/consumer.cuh"
#include "sm90/chunk_wgmma/producer.cuh"
#include "sm90/chunk_wgmma/rows.cuh"
#include "sm90/segments/checkpoint.cuh"
#include "sm90/segments/tiles.cuh"
#include "tile/operand.cuh"
#include "tile/shared.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk_wgmma::Tuning tune = KDA_TUNING;

using Chain = chunk_wgmma::Chain<abi::segments::in_chains(shape), tune>;
using Tiles = segments::Tiles<shape>;
using chunk_wgmma::Task;

constexpr int chunk = Chain::chunk;
constexpr int keys = Chain::keys;

using QueryImage = tile::Shared<shape.qkv_type, chunk, keys>;  // of q~
using Image = tile::Shared<abi::DType::bf16, keys, keys>;      // of T^T
static_assert(QueryImage::bytes == abi::segments::query_bytes(shape, chunk));

// T below this is nothing: times a state 2^40 as large as another, it is below that one's last bit.
constexpr u32 nothing = (127U - 64U) << 23;  // 2^-64

// Whether any of the warpgroup's columns is more than nothing; NaN is.
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
  return ptx::barrier_vote_any(1, 128, largest >= nothing);
}

template <int count>
KDA_DEVICE bool is_finite(const float (&s)[count][4]) {
  float sum = 0.0F;
#pragma unroll
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sum += s[k][e] * 0.0F;
  }
  return sum == 0.0F;
}

// This warpgroup's 64 columns of T, rows of T^T, from row `row0` on, and what rounding lost of
// them.
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
      const u32 at = Image::at(row + half * 8, k * 8 + 2 * lane.t);
      *reinterpret_cast<u32*>(image + at) = rounded;
      *reinterpret_cast<u32*>(rest + at) =
          alive ? Element::pack(pair[0] - kept.x, pair[1] - kept.y) : 0;
    }
    asm volatile("" ::: "memory");  // else all are computed before any is stored
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

// What a block works on.
struct Part {
  int unit, head;
  i64 slot;  // of its segment
  Segment segment;

  // By the block's index as it stands there: a chain leaves no register to hold this across it.
  // V columns come first where they have units of their own.  Units of a segment and head stand
  // side by side: the L2 serves neighbours, who read the same factors, in fewer clocks.
  static KDA_DEVICE Part here(const abi::segments::Args& args) {
    constexpr u32 units = abi::segments::units(shape, tune.warpgroups);
    const u32 heads = args.chain.in.value_heads;
    const u32 block = ptx::block_now() / units;
    const i64 slot = block / heads;
    return {static_cast<int>(blockIdx.x % units), static_cast<int>(block % heads), slot,
            segment_at<shape>(args.chain.in, slot, SegmentTokens(args.segments.chunks * chunk))};
  }

  KDA_DEVICE i64 head_slot(const abi::Inputs& in) const { return slot * in.value_heads + head; }

  // Tiles of 64 columns of its own, V's and T's; -1: none.
  KDA_DEVICE int value_tile() const { return unit < Tiles::count ? unit : -1; }
  KDA_DEVICE int key_tile() const {
    const int tile = tune.warpgroups == 2 ? unit : unit - Tiles::count;
    return segment.index > 0 && tile < keys / 64 ? tile : -1;
  }
  KDA_DEVICE bool is_idle() const {
    return !segment.exists() || (value_tile() < 0 && key_tile() < 0);
  }

  // tile: of V's or of T's.
  KDA_DEVICE Task task(int of_chunks, int tile) const {
    Task task;
    task.sequence = segment.sequence;
    task.n = segment.n;
    task.head = head;
    task.value0 = tile * 64;
    const int chunks = static_cast<int>((segment.sequence.length() + chunk - 1) / chunk);
    const int before = segment.index * of_chunks;  // chunks
    task.first = static_cast<i64>(before) * chunk;
    task.slot = first_slot(segment.sequence.begin, segment.n, chunk) + before;
    task.chunks = smaller(chunks - before, of_chunks);
    return task;
  }
};

// Shared address of how many chunks consumers of the identity leave, 0 while they go on; set before
// they give the last one's slot back.
KDA_DEVICE u32 stop_of(const Chain::Ring& ring) { return ring.barriers + 2 * Chain::stages * 8; }

// Rows of 64 V columns, in the first panel of a slot's rows where there are two.
struct ValueRows : Chain {
  static constexpr int columns = 64;
};

// Where q~ of a part's chunks goes from: the other panel, or where o would lie.
class Queries {
  static constexpr u32 from_ = tune.warpgroups == 2 ? Chain::Values::panel_bytes : 0;

 public:
  static constexpr int bytes = QueryImage::panel_bytes;
  static_assert(bytes == Chain::Values::panel_bytes);

  KDA_DEVICE Queries(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                     const Task& task)
      : ring_(ring),
        exist_(part.key_tile() >= 0),
        chunks_(task.chunks),
        stride_(static_cast<i64>(args.chain.in.value_heads) * QueryImage::bytes),
        first_(static_cast<char*>(args.segments.queries) +
               (task.slot * args.chain.in.value_heads + task.head) * QueryImage::bytes +
               larger(part.key_tile(), 0) * bytes) {}

  KDA_DEVICE bool exist() const { return exist_; }
  // Whether chunk `number` has none.
  KDA_DEVICE bool have_ended(int number) const {
    const u32 left = ptx::ld_shared_u32(stop_of(ring_));
    return left != 0 && number >= chunks_ - static_cast<int>(left);
  }
  KDA_DEVICE u32 from(u32 rows) const { return rows + from_; }
  KDA_DEVICE char* to(int number) const { return first_ + number * stride_; }

 private:
  const Chain::Ring& ring_;
  bool exist_;
  int chunks_;
  i64 stride_;
  char* first_;
};

// Rows on their way through the walk: v, o and q~, by the copy engine.
struct EngineMoves {
  const chunk_wgmma::EngineRows<ValueRows>& values;
  const Queries& queries;
  bool has_values;

  KDA_DEVICE void load(int number, u32 to, u32 barrier) const {
    if (has_values) {
      values.load(number, to, barrier);
    } else if (values.leads()) {
      ptx::mbarrier_arrive(barrier);
    }
  }
  KDA_DEVICE void store(int number, u32 from) const {
    if (has_values) values.store(number, from);
    if (values.leads() && queries.exist() && !queries.have_ended(number)) {
      ptx::bulk_store(queries.to(number), queries.from(from), Queries::bytes);
    }
  }
};

// The same by hand, in a block that has V columns.
struct HandMoves {
  chunk_wgmma::Rows<ValueRows>& rows;
  const Queries& queries;
  int warp, number;

  KDA_DEVICE void store(u32 from) const {
    rows.store(from);
    if (!queries.exist() || queries.have_ended(number)) return;
    constexpr int step = 32 * Chain::row_warps * 16;  // bytes
#pragma unroll 1
    for (int at = (warp * 32 + static_cast<int>(threadIdx.x) % 32) * 16; at < Queries::bytes;
         at += step) {
      *reinterpret_cast<float4*>(queries.to(number) + at) =
          ptx::ld_shared_f32x4(queries.from(from) + at);
    }
  }
  KDA_DEVICE void next() {
    rows.next();
    ++number;
  }
};

// Whether the copy engine moves the part's rows: without V columns there is nothing but q~.
KDA_DEVICE bool by_engine(const abi::segments::Args& args, const Part& part) {
  return part.value_tile() < 0 || chunk_wgmma::by_engine<Chain>(args.rows);
}

KDA_DEVICE void move(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                     int warp) {
  const Task task = part.task(args.segments.chunks, larger(part.value_tile(), 0));
  const Queries queries(ring, args, part, task);
  if (by_engine(args, part)) {
    if (warp > 0) return;
    const chunk_wgmma::EngineRows<ValueRows> values(args.rows, task);
    const EngineMoves moves{values, queries, part.value_tile() >= 0};
    chunk_wgmma::move_rows_by_engine<Chain>(ring, moves, task.chunks, [&](int number) {
      return tune.warpgroups == 1 && queries.exist() && queries.have_ended(number);
    });
    return;
  }
  const bool vectored = is_vectored<Chain::type>(args.chain.in.v, Chain::values) &&
                        is_vectored<Chain::type>(args.chain.out.o, Chain::values);
  chunk_wgmma::Rows<ValueRows> v(args.chain.in.v, task, warp, vectored);
  chunk_wgmma::Rows<ValueRows> o(args.chain.out.o, task, warp, vectored);
  HandMoves moves{o, queries, warp, 0};
  chunk_wgmma::move_rows_by_hand<Chain>(ring, {}, v, moves, task.chunks);
}

KDA_DEVICE void produce(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                        const Task& task, int number) {
  if (number > 0) {
    move(ring, args, part, number - 1);
    return;
  }
  // A second warpgroup goes on where T has come to nothing.
  const int fed = chunk_wgmma::feed<Chain>(ring, args.chain, task, [&] {
    return tune.warpgroups == 1 && ptx::ld_shared_u32(stop_of(ring)) != 0;
  });
  // Nothing may land once the block has ended, whether or not it is still wanted, and whether or
  // not all had been fed when the consumers ended.
  if (tune.warpgroups == 1 && threadIdx.x % 32 == 0) {
    Chain::Cursor landing;
    for (int i = 0; i < fed; ++i) {
      if (i >= fed - Chain::stages) ring.wait_full(landing);
      landing.next();
    }
  }
}

// The columns of the identity, with v = 0, until nothing is left of them.
struct Transitions {
  static constexpr bool begins_before = true;
  const Chain::Ring& ring;

  // Zeros, anew each time, that no register holds them from chunk to chunk.
  template <class Chain>
  KDA_DEVICE void load_values(u32 (&v)[Chain::chunk_tiles / 2][4], u32) const {
#pragma unroll
    for (auto& unit : v) unit[0] = unit[1] = unit[2] = unit[3] = 0;
  }
  KDA_DEVICE bool goes_on(int left, const Chain::State& state) const {
    const bool goes = left % 4 != 3 || is_alive(state.s[0]);
    if (!goes && threadIdx.x % 128 == 0) {
      ptx::st_shared_u32(stop_of(ring), static_cast<u32>(left));
    }
    // Known to be the same for a whole warp: else ptxas takes all that the loop carries for
    // different from lane to lane, and each product waits for its descriptor.
    return __shfl_sync(0xffffffffU, goes ? 1 : 0, 0) != 0;
  }
};

// This thread's warp's first column within its tile.
KDA_DEVICE int warp_column() { return static_cast<int>(ptx::thread_now()) % 128 / 32 * 16; }

template <bool identity>
KDA_DEVICE void begin_state(Chain::State& state, const abi::segments::Args& args,
                            const Part& part) {
  if constexpr (identity) {
    set_identity(state, part.key_tile() * 64 + warp_column());
  } else {
    const Slots<shape> slots(args.chain.out, part.segment.n);
    if (slots.has_start() && part.segment.index == 0) {
      state.load(slots.start(args.chain.out, args.chain.in, part.head),
                 part.value_tile() * 64 + warp_column());
    } else {
      state.clear();
    }
  }
}

// left: chunks that the chain did not go, as T had come to nothing.
template <bool identity>
KDA_DEVICE void leave_state(Chain::State& state, const abi::segments::Args& args, const Part& part,
                            int left) {
  const i64 head_slot = part.head_slot(args.chain.in);
  const bool wanted = shape.final_state || !part.segment.last();
  if constexpr (identity) {
    const int tile = part.key_tile();
    if (wanted) store_transition(args.segments, head_slot, tile * 64, state, left == 0);
    if (threadIdx.x % 128 == 0) {
      const int chunks = part.task(args.segments.chunks, tile).chunks;
      args.segments.known[head_slot * 2 + tile] = {chunks - left, left == 0 ? 1 : 0};
    }
  } else {
    const int tile = part.value_tile();
    if (wanted && part.segment.count == 1) {
      const Slots<shape> slots(args.chain.out, part.segment.n);
      const int column = tile * 64 + warp_column();
      state.store(Slots<shape>::at(args.chain.out, args.chain.in, slots.own, part.head), column);
      const int tokens = args.segments.chunks * chunk;
      if (part.segment.ends_whole(tokens)) {
        segments::keep<shape>(args, part.segment.n, part.head, tokens, state, column);
      }
    } else if (wanted) {
      segments::store_tile(state.s[0], Tiles::at(args.segments, head_slot, tile));
      const bool finite = __all_sync(0xffffffffU, is_finite(state.s[0]));
      args.segments.finite[(head_slot * Tiles::count + tile) * 4 + warp_column() / 16] = finite;
    }
  }
}

// Gives back the task's last `left` chunks unread, that others of the block may go on.
KDA_DEVICE void pass(const Chain::Ring& ring, int chunks, int left) {
  Chain::Cursor here{(chunks - left) % Chain::stages,
                     static_cast<u32>((chunks - left) / Chain::stages % 2)};
#pragma unroll 1
  for (; left > 0; --left) {
    ring.wait_full(here);
    ring.release(here);
    here.next();
  }
}

// A text each for V columns and those of T: in one for both, ptxas takes all that its branches
// depend on for different from lane to lane, and each product's descriptor comes late.
template <bool identity>
KDA_DEVICE void consume(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                        const Task& task) {
  int left = task.chunks;
  if (tune.warpgroups == 1 || (identity ? part.key_tile() : part.value_tile()) >= 0) {
    Chain::State state;
    begin_state<identity>(state, args, part);
    if constexpr (identity) {
      left = chunk_wgmma::consume<Chain>(ring, args.chain, task, state, Transitions{ring});
    } else {
      left = chunk_wgmma::consume<Chain>(ring, args.chain, task, state);
    }
    leave_state<identity>(state, args, Part::here(args), left);
  }
  if (tune.warpgroups == 2 && left > 0) {
    pass(ring, Part::here(args).task(args.segments.chunks, 0).chunks, left);
  }
}

// A part of a sequence that is padding.
KDA_DEVICE void pass_by(const abi::segments::Args& args, const Part& part) {
  ptx::wait_for_previous();  // the run ends after its prepare stage
  if (!shape.zero_padding || part.value_tile() < 0) return;
  const Task task = part.task(args.segments.chunks, part.value_tile());
  const abi::Tensor& o = args.chain.out.o;
  auto* to = static_cast<storage<Chain::type>*>(const_cast<void*>(o.data)) +
             offset_of<shape.varlen>(o, task.n, task.sequence.begin, task.head);
  const i64 rest = task.sequence.length() - task.first;
  const i64 tokens = static_cast<i64>(task.chunks) * chunk;
  write_zeros<Chain::type>(to + task.first * o.token + task.value0, o.token,
                           rest < tokens ? rest : tokens, smaller(64, Chain::values - task.value0),
                           Chain::threads);
}

extern "C" __global__ void __launch_bounds__(Chain::threads, Chain::resident)
    kda_segments_walk(const __grid_constant__ abi::segments::Args args) {
  extern __shared__ __align__(1024) char memory[];

  const abi::Inputs& in = args.chain.in;
  if (in.tokens == 0) ptx::wait_for_previous();  // else the prepare stage did
  ptx::launch_dependents();
  const Part part = Part::here(args);
  if (part.is_idle()) return;
  if constexpr (shape.state_pool) {
    if (Slots<shape>(args.chain.out, part.segment.n).padding) {
      pass_by(args, part);
      return;
    }
  }
  const Task task = part.task(args.segments.chunks, 0);

  const Chain::Ring ring(memory);
  if (threadIdx.x == 0) {
    ring.init(by_engine(args, part));
    ptx::st_shared_u32(stop_of(ring), 0);
  }
  __syncthreads();
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < Chain::consumers / 32) {
    if (tune.warpgroups == 2 ? warp >= 4 : part.value_tile() < 0) {
      consume<true>(ring, args, part, task);
    } else {
      consume<false>(ring, args, part, task);
    }
  } else {
    produce(ring, args, part, task, warp - Chain::consumers / 32);
  }
}

}  // namespace kda
