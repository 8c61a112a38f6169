// Strategy fused, its first stage: pairs of blocks take one part (a sequence, a value head and 128
// V columns) after another.  Groups make the chunks' factors (make.cuh), a warpgroup of each block
// walks them (walk.cuh).  With short_tokens a second stage serves short sequences.
#include "abi/fused.h"
#include "base/guard.cuh"
#include "ptx/dependent.cuh"
#include "ptx/registers.cuh"
#include "sm90/fused/make.cuh"
#include "sm90/fused/walk.cuh"

namespace kda {

extern "C" __global__ void __launch_bounds__(abi::fused::threads(tune.groups), 1)
    kda_fused_forward(const __grid_constant__ Guardable<abi::fused::Args> given) {
  extern __shared__ __align__(1024) char shared[];

  const abi::fused::Args& args = unguarded(given);
  const fused::Pair pair(shared);
  const fused::Line line{pair.decision()};
  if (threadIdx.x == 0) pair.init();
  pair.init_step(static_cast<int>(threadIdx.x));
  ptx::wait_for_previous();
  // The other way's kernels look meanwhile whether they have anything to do; short sequences go
  // where pairs leave room.
  if constexpr (guard == abi::Guard::alike || fused::leaves_short) ptx::launch_dependents();
  if (stays_out<shape>(given, args.in)) return;
  // Behind that: the other way's blocks, where they begin as pairs end one by one, lie so that
  // stages beside each other take 4 to 8% longer.
  if constexpr (guard == abi::Guard::unfound || fused::carried) ptx::launch_dependents();
  if constexpr (fused::carried) {
    if (threadIdx.x == 0) ptx::st_shared_u32(pair.decision(), static_cast<u32>(args.kept.chunks));
  } else {
    if (threadIdx.x < 32) line.decide(args.in);
  }
  ptx::cluster_meet();
  if (threadIdx.x < fused::group_threads * tune.groups) {
    ptx::give_up_registers<abi::fused::group_registers(tune.groups)>();
    fused::make(shared, pair, args, line);
  } else {
    ptx::take_registers<abi::fused::walk_registers(tune.groups)>();
    fused::Walk walk(shared, pair, args, findings(given));
    walk.line(line);
  }
  ptx::cluster_meet();  // so that neither block ends while the other reaches for its memory
}

}  // namespace kda
