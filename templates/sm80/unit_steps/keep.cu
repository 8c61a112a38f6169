// Strategy unit_steps, before both ways in a pool: what each sequence begins from, as the first way
// may write over its slot.
#include "abi/shape.h"
#include "abi/unit_steps.h"
#include "base/move.cuh"
#include "base/slots.cuh"

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

extern "C" __global__ void __launch_bounds__(threads)
    kda_unit_steps_keep(const __grid_constant__ abi::unit_steps::KeepArgs args) {
  const abi::Inputs& in = args.in;
  const i64 all = static_cast<i64>(in.sequences) * in.value_heads * parts;
  for (i64 i = blockIdx.x; i < all; i += gridDim.x) {
    const i64 begin = i % parts * part_elements;
    if (begin >= States::head_elements) continue;
    const int head = static_cast<int>(i / parts % in.value_heads);
    const int n = static_cast<int>(i / parts / in.value_heads);
    const States slots(args.out, n);
    if (slots.padding || !slots.has_start()) continue;
    const i64 rest = States::head_elements - begin;
    const i64 elements = rest < part_elements ? rest : part_elements;
    move_bytes(static_cast<States::Storage*>(args.kept) + States::in_row(in, n, head) + begin,
               slots.start(args.out, in, head) + begin,
               elements * static_cast<i64>(sizeof(States::Storage)), threadIdx.x, threads);
  }
}

}  // namespace kda
