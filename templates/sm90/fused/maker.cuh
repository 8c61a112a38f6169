// A group's part of the block's memory, and what it does however it makes a chunk's rows.
#pragma once

#include "sm90/factors/group.cuh"
#include "sm90/factors/load.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/stream.cuh"

namespace kda::fused {

// What a group remembers from chunk to chunk, behind its scratch.
struct Memory {
  Place places[2];  // of the chunk at hand and the next, in turn
  u32 number;       // of the chunk at hand, among those of its block
  Stream stream;
};
static_assert(sizeof(Memory) <= abi::fused::memory_bytes);

template <class Steps>
struct Maker : Steps {
  using Steps::group;
  using Steps::role;
  using Steps::thread;

  char* buffer;
  Memory& memory;

  KDA_DEVICE Maker(char* shared, int number)
      : Steps(*reinterpret_cast<Scratch*>(shared + number * group_bytes + scratch_at)),
        buffer(shared + number * group_bytes),
        memory(
            *reinterpret_cast<Memory*>(buffer + scratch_at + abi::factors::scratch_bytes(shape))) {}

  static constexpr int scratch_at = abi::factors::buffer_bytes(shape, groups);
  static_assert((scratch_at + abi::factors::scratch_bytes(shape)) % alignof(Memory) == 0);

  // What follows from the thread is found anew from here on: no register is left to hold it.
  KDA_DEVICE void forget() { asm volatile("" : "+r"(thread), "+r"(group)); }

  KDA_DEVICE void begin(const abi::Inputs& in, const Line& line) {
    if (this->warp == 0) {
      const int first = abi::fused::blocks * group + static_cast<int>(Pair::rank());
      Stream::begin(memory.stream, in, line, first, memory.places[0]);
      if (thread == 0) memory.number = group;
    }
    this->meet();
  }

  // From the rows of the chunk at hand to its whole image, and the place of the next.  Of that one,
  // fetch(): what a warp that has time takes to registers; load(): what all want early.
  template <class Fetch, class Load>
  KDA_DEVICE void end(const Pair& pair, const abi::Inputs& in, const Line& line, u32 round,
                      const ScoreSize& size, const Fetch& fetch, const Load& load) {
    const Place& here = memory.places[round];
    Place& next = memory.places[round ^ 1];
    const auto meanwhile = [&] {
      if (role() == 2) {
        Stream::advance<0>(memory.stream, in, line, abi::fused::blocks * groups, here, next, 0);
        fetch(next);
        prefetch_tile(in, next);
      }
    };
    forget();
    this->make_writers(pair.image(group), size, meanwhile, [&] { load(next); });
    forget();
    ptx::mbarrier_arrive(pair.made(group));
    if (role() == 3) {  // the others go on
      if (this->number_in_warp() == 0) {
        pair.push(group, memory.number, round);
        memory.number += groups;
      }
      __syncwarp();
    }
  }
};

}  // namespace kda::fused
