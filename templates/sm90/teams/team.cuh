// A team of two warps that turns q, k, g and beta of one chunk into its folded factors
// (abi/chunk.h) in shared memory (Tuning::slabs).  A bounded gate keeps every half of a chunk in
// range of an anchor at its start; of others the team looks, and gives those that are not several.
//
// A warp has half of the channels, of all tokens, 16 tokens and 16 channels at a time.  Its
// products' lanes hold the elements that the next product's operands want, so between raw inputs
// and scores nothing is exchanged but the lengths of rows; then a warp takes the scores of k and
// k, the other those of q and k.
#pragma once

#include "base/element.cuh"
#include "ptx/barrier.cuh"
#include "sm90/teams/scratch.cuh"
#include "tile/operand.cuh"

namespace kda::teams {

struct Team {
  static constexpr int threads = abi::factors::team_threads;

  char* memory;  // the team's: an image, then scratch
  int number;    // of the team in its block
  int warp;      // of the team, known uniform
  u32 own;       // this thread's number in its warp

  KDA_DEVICE Team(char* shared, int thread)
      : number(__shfl_sync(0xffffffffU, thread / threads, 0)),
        warp(__shfl_sync(0xffffffffU, thread / 32 % warps, 0)),
        own(static_cast<u32>(thread) % 32) {
    memory = shared + number * team_bytes;
  }

  KDA_DEVICE Scratch& scratch() const { return *reinterpret_cast<Scratch*>(memory + scratch_at); }
  KDA_DEVICE u32 address() const { return ptx::shared_address(memory); }
  KDA_DEVICE tile::Lane lane() const { return tile::Lane(own); }

  // Until both warps are here.
  KDA_DEVICE void meet() const { ptx::barrier_wait(1 + number, threads); }

  // This lane's row of a 16 x 16 piece of the warp's channels in a tile, its first k step's.
  template <class Tile>
  KDA_DEVICE u32 row_in() const {
    return Tile::at(own % 16, warp * wide + own / 16 * 8);
  }
};

}  // namespace kda::teams
