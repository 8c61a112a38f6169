// A group: the factors of every so many chunks of the pair's stream.
#pragma once

#include "ptx/special_registers.cuh"
#include "sm90/factors/factors.cuh"
#include "sm90/factors/incoming.cuh"
#include "sm90/factors/load.cuh"
#include "sm90/fused/keys.cuh"
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

// The pair's columns of v into the L2, a row a lane.
KDA_DEVICE void prefetch_values(int row, const abi::Inputs& in, const Place& place) {
  if (row >= place.rows) return;
  const char* at = static_cast<const char*>(in.v.data) + (place.v + row * in.v.token) * 2;
#pragma unroll
  for (int i = 0; i < abi::fused::blocks; ++i) ptx::prefetch(at + i * abi::fused::columns * 2);
}

// A group's part of the block's memory, and its steps.
struct Maker : Factors {
  char* buffer;
  Memory& memory;

  KDA_DEVICE Maker(char* shared, int group)
      : Factors(*reinterpret_cast<Scratch*>(shared + group * group_bytes + scratch_at)),
        buffer(shared + group * group_bytes),
        memory(*reinterpret_cast<Memory*>(buffer + scratch_at + abi::factors::scratch_bytes)) {}

  static constexpr int scratch_at = abi::factors::buffer_bytes(shape, groups);

  // What follows from the thread is found anew from here on: no register is left to hold it.
  KDA_DEVICE void forget() { asm volatile("" : "+r"(thread)); }

  KDA_DEVICE void begin(const abi::Inputs& in, const Line& line) {
    if (warp == 0) {
      const int first = abi::fused::blocks * group + static_cast<int>(Pair::rank());
      Stream::begin(memory.stream, in, line, first, memory.places[0]);
      if (thread == 0) memory.number = group;
    }
    meet();
  }

  // What is wanted of a place early: the gate's constants and beta in registers, g on its way.
  KDA_DEVICE void load(Incoming& raw, const abi::Inputs& in, const Place& place) const {
    raw.load(thread, in, place);
    load_gate(thread, shared, in, place);
  }

  // The chunk at hand, and the place of the next.
  KDA_DEVICE void make(const Pair& pair, const abi::Inputs& in, const Line& line, Incoming& raw,
                       u32 round) {
    const u32 address = pair.image(group);
    const Place& here = memory.places[round];
    Place& next = memory.places[round ^ 1];
    Keys k;
    k.fetch(thread, in.k, here.k, here.rows);
    Keys q;
    q.fetch(thread, in.q, here.q, here.rows);
    ptx::cp_async_wait_all();
    __syncwarp();
    const bool strong = accumulate_decays(raw, in.lower_bound, here.rows);
    ptx::mbarrier_wait(pair.taken(group), round ^ 1);  // the chunk before
    k.put(thread, address + image.kd, in.k, here.k, here.rows);
    q.put(thread, address + image.qd, in.q, here.q, here.rows);
    __syncwarp();
    forget();
    make_rows(buffer, address, strong);
    const auto meanwhile = [&] {
      if (role() == 2) {
        Stream::advance(memory.stream, in, line, abi::fused::blocks * groups, here, next);
        prefetch_tile(in, next);
        prefetch_values(thread % 32, in, next);
      }
    };
    forget();
    make_writers(address, meanwhile, [&] { load(raw, in, next); });
    forget();
    ptx::mbarrier_arrive(pair.made(group));
    if (role() == 3) {  // the others go on
      if (thread % 32 == 0) {
        pair.push(memory.number);
        memory.number += groups;
      }
      __syncwarp();
    }
  }
};

// A thread of a group; `shared` is the block's memory.
KDA_DEVICE void make(char* shared, const Pair& pair, const abi::Inputs& in, const Line& line) {
  Maker maker(shared, Group::number());
  maker.begin(in, line);
  u32 round = 0;
  Incoming raw;
  maker.load(raw, in, maker.memory.places[0]);
#pragma unroll 1
  for (;;) {
    Maker now(shared, static_cast<int>(ptx::thread_now() / Group::threads));
    if (now.memory.places[round].rows == 0) break;
    // What follows from it is found anew for each chunk: no register is left to hold it.
    now.thread = static_cast<int>(ptx::thread_now() % Group::threads);
    now.make(pair, in, line, raw, round);
    round ^= 1;
  }
}

}  // namespace kda::fused
