// Strategy segments, stage 3: what the states between segments add,
//   S_end = T S_begin + S_local;   o = o_local + q~ S_begin
// a block a (sequence, value head, 64 V columns, part of what is to be corrected); the state before
// its part is each block's own work.  One warpgroup holds S^T as accumulators, in f32; what it does
// stands here, what the other warps bring it in correct_feed.cuh.
#include "abi/segments.h"
#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/guard.cuh"
#include "base/segment.cuh"
#include "base/slots.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "ptx/dependent.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/segments/checkpoint.cuh"
#include "sm90/segments/correct_advance.cuh"
#include "sm90/segments/correct_feed.cuh"
#include "sm90/segments/correct_lost.cuh"
#include "sm90/segments/correct_part.cuh"
#include "sm90/segments/correction.cuh"
#include "sm90/segments/tiles.cuh"
#include "sm90/stay_out.cuh"
#include "tile/operand.cuh"

namespace kda {

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

// o += q~ S of the part's chunks that have a q~, each where it lies in the ring.  step: the next;
// output_scale: the run's.
KDA_DEVICE void correct(const Ring& ring, Step step, Cursor& here, const Share& share,
                        const float (&s)[keys / 8][4], const Nothing& nothing, float output_scale) {
  using Scale = Correction::Scale;
  Scale scale;
  if constexpr (Scale::needed) scale.choose(chunk_wgmma::largest(s));
  u32 operand[keys / 16][4];
  chunk_wgmma::pack(operand, s, scale);
  const u32 own = chunk_wgmma::own_rows<Correction>();
#pragma unroll 1
  for (int at = 0; at < share.own; ++at) {
    ring.wait_full(here);
    const u32 queries = ring.queries(step, here);
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
    if constexpr (Scale::needed) {
      chunk_wgmma::subtract_from_values<Correction>(
          o, v, -scale.down * output_scale / abi::segments::query_scale);
    }
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
  if (settled > 0 && part.steps_first()) {  // was brought before anything was known
    ring.wait_full(at_step);
    ring.release(at_step);
    at_step.next();
  }
  int at = settled + 1;  // the state is the one before that segment
  const auto go_to = [&](int index) {
#pragma unroll 1
    for (; at < index; ++at) {
      const Known known(args, part, at);
      ring.wait_full(at_step);
      advance(s, ring.at(at_step), known);
      ring.release(at_step);
      at_step.next();
    }
  };
  const int column = part.value0() + static_cast<int>(threadIdx.x) / 32 * 16;
  const auto keep = [&](int index) {
    segments::keep<shape>(args, part.sequence.n, part.head,
                          static_cast<i64>(index) * args.segments.chunks * chunk, state, column);
  };
#pragma unroll 1
  for (int index = part.first; index < part.end; ++index) {
    go_to(index);
    if (part.share == 0) keep(index);
    if (gives_up && part.looks()) look_at_lost(ring, at_step, args, part, index, s);
    const Share share(args, part, Known(args, part, index), index);
    const Nothing nothing(s);
    correct(ring, at_step, here, share, s, nothing, args.chain.in.scale);
    if (share.left > 0) spoil(args, part, share, nothing);
  }
  if (part.finals) {
    go_to(part.sequence.count);
    const Slots<shape> slots(args.chain.out, part.sequence.n);
    state.store(Slots<shape>::at(args.chain.out, args.chain.in, slots.own, part.head), column);
    if (part.sequence.ends_whole(args.segments.chunks * chunk)) keep(part.sequence.count);
  }
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    kda_segments_correct(const __grid_constant__ Guardable<abi::segments::Args> given) {
  extern __shared__ __align__(1024) char memory[];

  const abi::segments::Args& args = unguarded(given);
  const abi::Inputs& in = args.chain.in;
  if (ends_at_once<shape>(given, in)) return;
  const u32 line = blockIdx.x / Tiles::count;
  const int number = static_cast<int>(line % args.segments.parts);
  const int head = static_cast<int>(line / args.segments.parts % in.value_heads);
  const int n = static_cast<int>(line / args.segments.parts / in.value_heads);
  Part part{Segment::first_of<shape>(in, n, PowerOfTwoTokens(args.segments.chunks * chunk)), head,
            static_cast<int>(blockIdx.x % Tiles::count)};
  const Ring ring(memory);
  if (threadIdx.x == 0) ring.init();
  if (part.sequence.count > 1) part.take(number, args.segments.parts);
  __syncthreads();
  ptx::wait_for_previous();
  if (gives_up && args.given_up.again && __ldcg(args.given_up.unsure) == 0) return;
  if (part.sequence.count < 2 || part.is_idle()) return;
  if (shape.state_pool && Slots<shape>(args.chain.out, n).padding) return;
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
