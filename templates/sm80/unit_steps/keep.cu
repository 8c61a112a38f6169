// Strategy unit_steps, before both ways in a pool: what each sequence that may be served again
// begins from, as the first way may write over its slot.
#include "abi/shape.h"
#include "abi/unit_steps.h"
#include "base/move.cuh"
#include "base/slots.cuh"
#include "base/varlen.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr int threads = abi::unit_steps::keep_threads;
constexpr int parts = abi::unit_steps::keep_parts;
using States = Slots<shape>;

// Of a head's state; the last part may be shorter.
constexpr i64 part_elements =
    round_up(static_cast<int>((States::head_elements + parts - 1) / parts), 16);

KDA_DEVICE void keep(const abi::unit_steps::KeepArgs& args, int n, i64 number) {
  const abi::Inputs& in = args.in;
  const i64 begin = number % parts * part_elements;
  if (begin >= States::head_elements) return;
  const int head = static_cast<int>(number / parts);
  const States slots(args.out, n);
  if (slots.padding || !slots.has_start()) return;
  const i64 rest = States::head_elements - begin;
  const i64 elements = rest < part_elements ? rest : part_elements;
  move_bytes(static_cast<States::Storage*>(args.kept) + States::in_row(in, n, head) + begin,
             slots.start(args.out, in, head) + begin,
             elements * static_cast<i64>(sizeof(States::Storage)), threadIdx.x, threads);
}

extern "C" __global__ void __launch_bounds__(threads)
    kda_unit_steps_keep(const __grid_constant__ abi::unit_steps::KeepArgs args) {
  const abi::Inputs& in = args.in;
  constexpr int rounds = 4;  // of 32 sequences, their lengths' loads in flight
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const i64 each = static_cast<i64>(in.value_heads) * parts;  // of a sequence
  i64 number = blockIdx.x;  // the block's next part of all that are kept,
  i64 before = 0;           // and how many those of earlier sequences are
#pragma unroll 1
  for (int first = 0; first < in.sequences; first += rounds * 32) {
    bool wanted[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      const int n = first + i * 32 + lane;
      wanted[i] = n < in.sequences;
      if (wanted[i] && args.short_tokens > 1) {
        wanted[i] =
            sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n).chunked(args.short_tokens) > 0;
      }
    }
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      u32 left = __ballot_sync(0xffffffffU, wanted[i]);
#pragma unroll 1
      for (; left != 0; left &= left - 1, before += each) {
        const int n = first + i * 32 + __ffs(static_cast<int>(left)) - 1;
        for (; number < before + each; number += gridDim.x) keep(args, n, number - before);
      }
    }
  }
}

}  // namespace kda
