// Strategy segments, stage 3: what the states between segments add,
//   S_end = T S_begin + S_local;   o = o_local + q~ S_begin
// a block a (sequence, value head, 64 V columns, part of what is to be corrected); the state before
// its part is each block's own work.  One warpgroup holds S^T as accumulators, in f32.  T and S
// enter their product as a bf16 and what it lost, three products for one, so that what it adds is
// of the order of 2^-17 and not of the 2^-9 of a factor.
#include "abi/chunk_wgmma.h"
#include "abi/segments.h"
#include "abi/shape.h"
#include "base/element.cuh"
#include "base/segment.cuh"
#include "base/tensor.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "ptx/bulk.cuh"
#include "ptx/dependent.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/chunk_wgmma/rows.cuh"
#include "sm90/segments/tiles.cuh"
#include "step/state.cuh"
#include "tile/operand.cuh"
#include "tile/scale.cuh"
#include "tile/shared.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::segments::Tuning tune = KDA_TUNING;  // chunk alone

// What move_rows (chunk_wgmma/rows.cuh) wants to know of a ring: here of rows of o, which are
// corrected where they lie.
struct Correction {
  static constexpr abi::Shape shape = kda::shape;
  static constexpr abi::DType type = shape.qkv_type;
  static constexpr int chunk = tune.chunk;
  static constexpr int chunk_tiles = chunk / 8;
  static constexpr int keys = abi::chunk::factor_keys(shape);
  static constexpr int panels = keys / 64;
  static constexpr int values = shape.value_dim;
  static constexpr int columns = 64;
  static constexpr int consumers = 128;
  static constexpr int row_warps = 2;
  static constexpr int stages = abi::segments::correct_stages(shape, chunk);
  static constexpr int value_row = abi::chunk_wgmma::value_row_bytes({.warpgroups = 1});
  static constexpr bool writes_outputs = true;
  struct Slot {
    int v = 0;
  };
  static constexpr Slot slot = {};

  using Factor = tile::Shared<type, chunk, keys>;  // an image of q~
  using State = step::State<shape, 1, keys>;
  using Scale = tile::Scale<type>;
  using Accumulators = float[chunk_tiles][4];

  // A place in a ring of `size`, and how often it has been passed (by parity).
  template <int size>
  struct Place {
    int index = 0;
    u32 parity = 0;

    KDA_DEVICE void next(int count = 1) {
      for (int i = 0; i < count; ++i) {
        if (++index == size) {
          index = 0;
          parity ^= 1;
        }
      }
    }
  };
  using Cursor = Place<stages>;
  using Step = Place<2>;
  static_assert(stages > 2, "the two would be one type");

  // Two steps of the state, or in their place a ring of q~; rows of o; barriers, full and empty.
  struct Ring {
    static constexpr int step_bytes = abi::segments::step_bytes(shape);
    static constexpr int row_bytes = abi::segments::output_bytes(chunk);

    u32 begin, barriers;

    KDA_DEVICE explicit Ring(void* memory)
        : begin(ptx::shared_address(memory)),
          barriers(begin + 2 * step_bytes + stages * row_bytes) {}
    KDA_DEVICE u32 queries(Cursor c) const { return begin + c.index * Factor::bytes; }
    KDA_DEVICE u32 at(Cursor c) const { return begin + 2 * step_bytes + c.index * row_bytes; }
    KDA_DEVICE u32 full(Cursor c) const { return barriers + c.index * 8; }
    KDA_DEVICE u32 empty(Cursor c) const { return barriers + (stages + c.index) * 8; }
    KDA_DEVICE void wait_full(Cursor c) const { ptx::mbarrier_wait(full(c), c.parity); }
    KDA_DEVICE void wait_empty(Cursor c) const { ptx::mbarrier_wait(empty(c), c.parity ^ 1); }
    KDA_DEVICE void release(Cursor c) const { ptx::mbarrier_arrive(empty(c)); }

    KDA_DEVICE u32 at(Step s) const { return begin + s.index * step_bytes; }
    KDA_DEVICE u32 full(Step s) const { return barriers + 2 * stages * 8 + s.index * 16; }
    KDA_DEVICE u32 empty(Step s) const { return full(s) + 8; }
    KDA_DEVICE void wait_full(Step s) const { ptx::mbarrier_wait(full(s), s.parity); }
    KDA_DEVICE void wait_empty(Step s) const { ptx::mbarrier_wait(empty(s), s.parity ^ 1); }
    KDA_DEVICE void release(Step s) const { ptx::mbarrier_arrive(empty(s)); }

    // Until all that was loaded so far has been given back.
    template <int size>
    KDA_DEVICE void drain(Place<size> at) const {
      for (int i = 0; i < size; ++i, at.next()) wait_empty(at);
    }

    KDA_DEVICE void init() const {
      for (Cursor c; c.parity == 0; c.next()) {
        ptx::mbarrier_init(full(c), 1 + 32 * row_warps);
        ptx::mbarrier_init(empty(c), consumers);
      }
      for (Step s; s.parity == 0; s.next()) {
        ptx::mbarrier_init(full(s), 1);
        ptx::mbarrier_init(empty(s), consumers);
      }
      ptx::fence_barrier_init();
    }
  };
};

using Ring = Correction::Ring;
using Cursor = Correction::Cursor;
using Step = Correction::Step;
using Tiles = segments::Tiles<shape>;
constexpr int chunk = Correction::chunk;
constexpr int keys = Correction::keys;
constexpr int panels = Correction::panels;
constexpr int threads = Correction::consumers + 32 * (1 + Correction::row_warps);
using Image = tile::Shared<abi::DType::bf16, keys, keys>;  // of T^T
static_assert(Image::bytes == abi::segments::transition_bytes(shape));
static_assert(Correction::Factor::bytes == abi::segments::query_bytes(shape, chunk));

// What a block works on: of the segments after a sequence's first some, or of one a share.
struct Part {
  Segment sequence;   // its first segment
  int head, tile;     // of V columns
  int first, end;     // segments; where `first` is the count, none
  int share, shares;  // of a segment's chunks
  bool finals;        // leaves the state after the last

  KDA_DEVICE int value0() const { return tile * 64; }
  KDA_DEVICE i64 head_slot(const abi::segments::Args& args, int segment) const {
    return (sequence.slot + segment) * args.chain.in.value_heads + head;
  }
  // Of all parts the number-th.
  KDA_DEVICE void take(int number, int parts) {
    const int count = sequence.count - 1;  // segments to correct, at least one
    if (count >= parts) {
      first = 1 + static_cast<int>(static_cast<i64>(number) * count / parts);
      end = 1 + static_cast<int>(static_cast<i64>(number + 1) * count / parts);
      share = 0;
      shares = 1;
      finals = shape.final_state && number + 1 == parts;
      return;
    }
    // One that no chunks are left for goes to the end at once.
    shares = parts / count;
    share = number % shares;
    const int before = number / shares;
    first = 1 + smaller(before, count);
    end = smaller(first + 1, sequence.count);
    const int idle = count * shares;
    finals = shape.final_state && number == smaller(idle, parts - 1);
  }
  KDA_DEVICE bool is_idle() const { return first >= sequence.count && !finals; }
};

// What the walk has left of a segment's T; a whole warp asks.
struct Known {
  int chunks[2] = {};  // of its first chunks so many have a q~, of each 64 channels
  bool alive = false;  // T is not nothing

  KDA_DEVICE Known(const abi::segments::Args& args, const Part& part, int index) {
    const abi::segments::Transition* of = args.segments.known + part.head_slot(args, index) * 2;
    int is_alive = 0;
#pragma unroll
    for (int i = 0; i < panels; ++i) {
      chunks[i] = __shfl_sync(0xffffffffU, of[i].chunks, 0);
      is_alive |= of[i].alive;
    }
    alive = __shfl_sync(0xffffffffU, is_alive, 0) != 0;
  }
};

// The last segment before `first` after which the state is S_local, as nothing is left of what was
// before it; 0 where there is none or something was not finite, as 0 times that is not 0.  A whole
// warp asks.
KDA_DEVICE int settled_before(const abi::segments::Args& args, const Part& part, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int settled = 0;
#pragma unroll 1
  for (int last = first - 1; last > 0 && settled == 0; last -= 32) {
    const int index = last - lane;
    bool nothing = index > 0;
    for (int i = 0; nothing && i < panels; ++i) {
      nothing = args.segments.known[part.head_slot(args, index) * 2 + i].alive == 0;
    }
    const u32 found = __ballot_sync(0xffffffffU, nothing);
    if (found != 0) settled = last - __ffs(static_cast<int>(found)) + 1;
  }
#pragma unroll 1
  for (int from = 0; from < settled; from += 32) {
    const int index = from + lane;
    const bool finite =
        index >= settled ||
        reinterpret_cast<const u32*>(
            args.segments.finite)[part.head_slot(args, index) * Tiles::count + part.tile] ==
            0x01010101U;
    if (!__all_sync(0xffffffffU, finite)) return 0;
  }
  return settled;
}

// A part's chunks of a segment: those that have a q~, and those that have not.
struct Share {
  int first = 0;  // within the sequence
  int own = 0, left = 0;
  int known[2] = {};  // of `own` so many have a q~ of each 64 channels

  KDA_DEVICE Share(const abi::segments::Args& args, const Part& part, const Known& of, int index) {
    const int chunks = static_cast<int>((part.sequence.sequence.length() + chunk - 1) / chunk);
    const int before = index * args.segments.chunks;
    const int here = smaller(chunks - before, args.segments.chunks);
    const int each = ceil_div(here, part.shares);
    const int from = smaller(part.share * each, here);
    const int to = smaller(from + each, here);
    first = before + from;
    own = larger(smaller(larger(of.chunks[0], of.chunks[1]), to) - from, 0);
    left = to - from - own;
    known[0] = larger(of.chunks[0] - from, 0);
    known[1] = larger(of.chunks[1] - from, 0);
  }

  KDA_DEVICE chunk_wgmma::Task task(const Part& part) const {
    chunk_wgmma::Task task;
    task.sequence = part.sequence.sequence;
    task.n = part.sequence.n;
    task.head = part.head;
    task.value0 = part.value0();
    task.first = static_cast<i64>(first) * chunk;
    task.slot = first_slot(task.sequence.begin, task.n, chunk) + first;
    task.chunks = own;
    return task;
  }
};

// The warp that brings T and S_local, and q~.
class Feed {
 public:
  KDA_DEVICE Feed(const Ring& ring, const abi::segments::Args& args, const Part& part)
      : ring_(ring), args_(args), part_(part) {}

  // T and S_local of segments from `index` to `end` - 1.
  KDA_DEVICE void steps(int index, int end) {
    if (index >= end) return;
    ring_.drain(to_);
#pragma unroll 1
    for (; index < end; ++index) {
      const bool alive = Known(args_, part_, index).alive;
      ring_.wait_empty(step_);
      if (leads()) {
        const i64 head_slot = part_.head_slot(args_, index);
        const u32 full = ring_.full(step_);
        const u32 at = ring_.at(step_);
        ptx::mbarrier_arrive_expecting(full, Tiles::bytes + (alive ? 2 * Image::bytes : 0));
        ptx::bulk_load(at + 2 * Image::bytes, Tiles::at(args_.segments, head_slot, part_.tile),
                       Tiles::bytes, full);
        if (alive) {
          const i64 image = head_slot * Image::bytes;
          ptx::bulk_load(at, static_cast<const char*>(args_.segments.transition) + image,
                         Image::bytes, full);
          ptx::bulk_load(at + Image::bytes,
                         static_cast<const char*>(args_.segments.transition_rest) + image,
                         Image::bytes, full);
        }
      }
      step_.next();
    }
  }

  KDA_DEVICE void queries(int index) {
    const Share share(args_, part_, Known(args_, part_, index), index);
    if (share.own == 0) return;
    ring_.drain(step_);
    const int value_heads = args_.chain.in.value_heads;
    const i64 slot = share.task(part_).slot;
    const char* from = static_cast<const char*>(args_.segments.queries) +
                       (slot * value_heads + part_.head) * Correction::Factor::bytes;
#pragma unroll 1
    for (int at = 0; at < share.own; ++at) {
      ring_.wait_empty(to_);
      if (leads()) {
        constexpr int panel = Correction::Factor::panel_bytes;
        const u32 full = ring_.full(to_);
        const bool low = at < share.known[0];
        const bool high = at < share.known[1];
        ptx::mbarrier_arrive_expecting(full, (low ? panel : 0) + (high ? panel : 0));
        if (low) ptx::bulk_load(ring_.queries(to_), from, panel, full);
        if (high) ptx::bulk_load(ring_.queries(to_) + panel, from + panel, panel, full);
      }
      from += static_cast<i64>(value_heads) * Correction::Factor::bytes;
      to_.next();
    }
  }

 private:
  static KDA_DEVICE bool leads() { return threadIdx.x % 32 == 0; }

  const Ring& ring_;
  const abi::segments::Args& args_;
  const Part& part_;
  Cursor to_;
  Step step_;
};

KDA_DEVICE void feed(const Ring& ring, const abi::segments::Args& args, const Part& part) {
  Feed feed(ring, args, part);
  int at = settled_before(args, part, part.first) + 1;
#pragma unroll 1
  for (int index = part.first; index < part.end; ++index) {
    feed.steps(at, index);
    at = index;
    feed.queries(index);
  }
  if (part.finals) feed.steps(at, part.sequence.count);
}

// The warps that bring o and take it away.
KDA_DEVICE void move_outputs(const Ring& ring, const abi::segments::Args& args, const Part& part,
                             int warp) {
  const abi::Tensor& o = args.chain.out.o;
  const bool vectored = is_vectored<Correction::type>(o, Correction::values);
  Cursor here;
#pragma unroll 1
  for (int index = part.first; index < part.end; ++index) {
    const Share share(args, part, Known(args, part, index), index);
    if (share.own == 0) continue;
    const chunk_wgmma::Task task = share.task(part);
    chunk_wgmma::Rows<Correction> from(o, task, warp, vectored);
    chunk_wgmma::Rows<Correction> to(o, task, warp, vectored);
    chunk_wgmma::move_rows<Correction>(ring, here, from, to, share.own, [](int) { return false; });
    here.next(share.own);
  }
}

// s[V, K] += (a + rest)[V, K] (T + rest)^T, but for the product of the rests; small terms first.
KDA_DEVICE void apply(float (&s)[keys / 8][4], const u32 (&a)[keys / 16][4],
                      const u32 (&rest)[keys / 16][4], u32 step) {
  const ptx::WgmmaTile t(step, 128, Image::panel_bytes, 1024);
  const ptx::WgmmaTile t_rest(step + Image::bytes, 128, Image::panel_bytes, 1024);
  using Product = ptx::wgmma_m64k16<abi::DType::bf16, keys, 1>;
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], rest[k], t.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], a[k], t_rest.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], a[k], t.at(k * 16 * 128), 1);
}

// S^T as bf16 operands, and what they lost.
KDA_DEVICE void split(u32 (&a)[keys / 16][4], u32 (&rest)[keys / 16][4],
                      const float (&s)[keys / 8][4]) {
  using Element = element<abi::DType::bf16>;
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = s[2 * k + i / 2] + i % 2 * 2;
      a[k][i] = Element::pack(pair[0], pair[1]);
      const float2 kept = Element::unpack(a[k][i]);
      rest[k][i] = Element::pack(pair[0] - kept.x, pair[1] - kept.y);
    }
  }
}

// The state before a segment becomes the one after it.
KDA_DEVICE void advance(float (&s)[keys / 8][4], u32 at, bool alive) {
  u32 a[keys / 16][4];
  u32 rest[keys / 16][4];
  split(a, rest, s);
  // What decayed to nothing is 0 times what it was, which keeps NaN and infinity.
  const u32 local = at + 2 * Image::bytes + threadIdx.x * 16;
#pragma unroll
  for (int k = 0; k < keys / 8; ++k) {
    const float4 x = ptx::ld_shared_f32x4(local + k * 128 * 16);
    s[k][0] = s[k][0] * 0.0F + x.x;
    s[k][1] = s[k][1] * 0.0F + x.y;
    s[k][2] = s[k][2] * 0.0F + x.z;
    s[k][3] = s[k][3] * 0.0F + x.w;
  }
  if (alive) {
    chunk_wgmma::hold(s);
    ptx::wgmma_fence();
    apply(s, a, rest, at);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    chunk_wgmma::hold(s);
  }
}

// 0 times S, summed over the channels of a panel: 0, or NaN where S is not finite, which tokens
// whose q~ is nothing see nevertheless.  Of this lane's two V columns.
struct Nothing {
  float of[panels][2] = {};

  KDA_DEVICE explicit Nothing(const float (&s)[keys / 8][4]) {
#pragma unroll
    for (int k = 0; k < keys / 8; ++k) {
#pragma unroll
      for (int e = 0; e < 4; ++e) of[k / 8][e / 2] += s[k][e] * 0.0F;
    }
#pragma unroll
    for (auto& panel : of) {
#pragma unroll
      for (float& x : panel) {
        x += __shfl_xor_sync(0xffffffffU, x, 1);
        x += __shfl_xor_sync(0xffffffffU, x, 2);
      }
    }
  }
};

// o^T += S^T q~^T over the channels of panels first to end - 1.
template <int first, int end>
KDA_DEVICE void multiply(Correction::Accumulators& o, const u32 (&s)[keys / 16][4], u32 queries) {
  const ptx::WgmmaTile q(queries, 128, 0, 1024);
  chunk_wgmma::hold(o);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = first * 4; k < end * 4; ++k) {
    ptx::wgmma_m64k16<Correction::type, chunk, 0>::run(
        &o[0][0], s[k], q.at(k / 4 * Correction::Factor::panel_bytes + k % 4 * 32), 1);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  chunk_wgmma::hold(o);
}

// o += q~ S of the part's chunks that have a q~, each where it lies in the ring.
KDA_DEVICE void correct(const Ring& ring, Cursor& here, const Share& share,
                        const float (&s)[keys / 8][4], const Nothing& nothing) {
  using Scale = Correction::Scale;
  Scale scale;
  if constexpr (Scale::needed) scale.choose(chunk_wgmma::largest(s));
  u32 operand[keys / 16][4];
  chunk_wgmma::pack(operand, s, scale);
  const u32 own = chunk_wgmma::own_rows<Correction>();
#pragma unroll 1
  for (int at = 0; at < share.own; ++at) {
    ring.wait_full(here);
    const u32 queries = ring.queries(here);
    const u32 rows = ring.at(here) + own;
    u32 v[Correction::chunk_tiles / 2][4];
    chunk_wgmma::load_values_transposed<Correction>(v, rows);
    Correction::Accumulators o;
    if constexpr (Scale::needed) {
#pragma unroll
      for (auto& x : o) x[0] = x[1] = x[2] = x[3] = 0.0F;
    } else {
      chunk_wgmma::take_values<Correction>(o, v);
    }
#pragma unroll
    for (int panel = 0; panel < panels; ++panel) {
      if (at < share.known[panel]) continue;
#pragma unroll
      for (auto& x : o) {
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] += nothing.of[panel][e / 2];
      }
    }
    const bool low = at < share.known[0];
    if (low && at < share.known[panels - 1]) {
      multiply<0, panels>(o, operand, queries);
    } else if (low) {
      multiply<0, 1>(o, operand, queries);
    } else {
      multiply<panels - 1, panels>(o, operand, queries);
    }
    if constexpr (Scale::needed) chunk_wgmma::subtract_from_values<Correction>(o, v, -scale.down);
    chunk_wgmma::leave_outputs<Correction>(rows, o, 1.0F);
    ring.release(here);
    here.next();
  }
}

// The part's chunks that have no q~: o stays as it is, or becomes NaN.
KDA_DEVICE void spoil(const abi::segments::Args& args, const Part& part, const Share& share,
                      const Nothing& nothing) {
  const abi::Tensor& o = args.chain.out.o;
  const i64 first = static_cast<i64>(share.first + share.own) * chunk;
  const i64 past = first + static_cast<i64>(share.left) * chunk;
  const i64 length = part.sequence.sequence.length();
  const tile::Lane lane;
  auto* to = static_cast<storage<Correction::type>*>(const_cast<void*>(o.data)) +
             offset_of<shape.varlen>(o, part.sequence.n, part.sequence.sequence.begin, part.head);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float sum = 0.0F;
    for (int panel = 0; panel < panels; ++panel) sum += nothing.of[panel][i];
    const int column = part.value0() + static_cast<int>(threadIdx.x) / 32 * 16 + i * 8 + lane.g;
    if (sum == 0.0F || column >= Correction::values) continue;
#pragma unroll 1
    for (i64 row = first + lane.t; row < past && row < length; row += 4) {
      to[row * o.token + column] = element<Correction::type>::from_float(sum);
    }
  }
}

KDA_DEVICE void consume(const Ring& ring, const abi::segments::Args& args, const Part& part) {
  const int settled = settled_before(args, part, part.first);
  Correction::State state;
  auto& s = state.s[0];
  segments::load_tile(s, Tiles::at(args.segments, part.head_slot(args, settled), part.tile));
  Cursor here;
  Step at_step;
  int at = settled + 1;  // the state is the one before that segment
  const auto go_to = [&](int index) {
#pragma unroll 1
    for (; at < index; ++at) {
      const bool alive = Known(args, part, at).alive;
      ring.wait_full(at_step);
      advance(s, ring.at(at_step), alive);
      ring.release(at_step);
      at_step.next();
    }
  };
#pragma unroll 1
  for (int index = part.first; index < part.end; ++index) {
    go_to(index);
    const Share share(args, part, Known(args, part, index), index);
    const Nothing nothing(s);
    correct(ring, here, share, s, nothing);
    if (share.left > 0) spoil(args, part, share, nothing);
  }
  if (part.finals) {
    go_to(part.sequence.count);
    state.store(args.chain.out.final_state,
                static_cast<i64>(part.sequence.n) * args.chain.in.value_heads + part.head,
                part.value0() + static_cast<int>(threadIdx.x) / 32 * 16);
  }
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    kda_segments_correct(const __grid_constant__ abi::segments::Args args) {
  extern __shared__ __align__(1024) char memory[];

  const abi::Inputs& in = args.chain.in;
  const u32 line = blockIdx.x / Tiles::count;
  const int number = static_cast<int>(line % args.segments.parts);
  const int head = static_cast<int>(line / args.segments.parts % in.value_heads);
  const int n = static_cast<int>(line / args.segments.parts / in.value_heads);
  Part part{Segment::first_of<shape>(in, n, SegmentTokens(args.segments.chunks * chunk)), head,
            static_cast<int>(blockIdx.x % Tiles::count)};
  const Ring ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  ptx::wait_for_previous();
  if (part.sequence.count < 2) return;
  part.take(number, args.segments.parts);
  if (part.is_idle()) return;
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  constexpr int consumer_warps = Correction::consumers / 32;
  if (warp < consumer_warps) {
    consume(ring, args, part);
  } else if (warp == consumer_warps) {
    feed(ring, args, part);
  } else {
    move_outputs(ring, args, part, warp - consumer_warps - 1);
  }
}

}  // namespace kda
