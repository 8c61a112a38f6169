// What the two blocks of a cluster agree on: which chunk of their stream is made by whom, where its
// factors are found, and the barriers by which they pass from who makes them to who walks.
//
// Chunks are numbered along the stream.  Of chunk t, block t % 2 is the maker, by its group
// t / 2 % groups.  Its own warpgroup reads the factors where they were made; the other block's in
// one of its slots, t / 2 % slots.
#pragma once

#include "abi/fused.h"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "sm90/factors/group.cuh"

namespace kda::fused {

constexpr int groups = tune.groups;
constexpr abi::fused::Layout layout = abi::fused::layout(shape, groups);
constexpr int group_bytes = abi::factors::group_bytes(shape, 2);
static_assert(abi::fused::fits(shape, groups), "the barriers need room behind a group's scratch");

// A chunk, by its number among those of its maker: t / 2.
struct Turn {
  int group, slot;
  u32 round, slot_round;  // how often each has been used before, by parity

  KDA_DEVICE Turn() : group(0), slot(0), round(0), slot_round(0) {}
  KDA_DEVICE explicit Turn(u32 number)
      : group(static_cast<int>(number % groups)),
        slot(static_cast<int>(number % layout.slots)),
        round(number / groups & 1),
        slot_round(number / layout.slots & 1) {}

  KDA_DEVICE void next() {
    if (++group == groups) {
      group = 0;
      round ^= 1;
    }
    if (++slot == layout.slots) {
      slot = 0;
      slot_round ^= 1;
    }
  }
};

struct Pair {
  u32 memory;  // shared address

  static constexpr u32 warps = 4;  // that walk, a block
  // Arrivals: all who have read here, and a lane of each warp for all that has read there.
  static constexpr u32 takers = 32 * warps + warps;

  KDA_DEVICE explicit Pair(const void* shared) : memory(ptx::shared_address(shared)) {}

  // This block's number in the pair.
  static KDA_DEVICE u32 rank() { return blockIdx.x % abi::fused::blocks; }

  KDA_DEVICE u32 image(int group) const { return memory + group * group_bytes; }
  KDA_DEVICE u32 slot(int number) const { return memory + layout.arriving + number * layout.slot; }

  // A group's factors are there; all who walk, here and there, have done with them; the other
  // block's are in a slot.
  KDA_DEVICE u32 made(int group) const { return memory + layout.barriers + group * 8; }
  KDA_DEVICE u32 taken(int group) const { return made(groups + group); }
  KDA_DEVICE u32 arrived(int number) const { return made(2 * groups + number); }
  // A chunk's v is there, and o where it lay.
  KDA_DEVICE u32 brought(u32 tile) const { return made(2 * groups + layout.slots + tile); }
  KDA_DEVICE u32 left(u32 tile) const { return brought(abi::fused::values_at_once + tile); }
  // A word behind the barriers: whether parts are cut (stream.cuh).
  KDA_DEVICE u32 decision() const { return left(abi::fused::values_at_once); }
  static_assert((2 * groups + layout.slots + 2 * abi::fused::values_at_once + 1) * 8 <=
                abi::fused::barrier_bytes);

  KDA_DEVICE u32 values(u32 tile) const { return memory + layout.values + tile * values_bytes; }
  static constexpr int value_row = abi::fused::columns * 2;  // bytes
  static constexpr int values_bytes = chunk * value_row;

  // By one thread of each block, before the cluster meets.
  KDA_DEVICE void init() const {
    for (int i = 0; i < groups; ++i) {
      ptx::mbarrier_init(made(i), Group::threads);
      ptx::mbarrier_init(taken(i), takers);
    }
    for (int i = 0; i < layout.slots; ++i) {
      ptx::mbarrier_init(arrived(i), 1);
    }
    for (int i = 0; i < abi::fused::values_at_once; ++i) {
      ptx::mbarrier_init(brought(i), 32 * warps);
      ptx::mbarrier_init(left(i), warps);
    }
    ptx::fence_barrier_init();
    for (int i = 0; i < layout.slots; ++i) expect(i);
  }

  // The next chunk that comes to a slot; one thread of the block.
  KDA_DEVICE void expect(int number) const {
    ptx::mbarrier_arrive_expecting(arrived(number), kda::image.bytes);
  }

  // By one thread of a group: its factors, once they are there, to the other block.
  KDA_DEVICE void push(u32 number) const {
    const Turn turn(number);
    ptx::mbarrier_wait(made(turn.group), turn.round);
    // The slot's last chunk has been taken; with fewer groups than slots this one's last chunk came
    // later, and it has waited for that.
    if (layout.slots < groups && number >= layout.slots) {
      const Turn last(number - layout.slots);
      ptx::mbarrier_wait(taken(last.group), last.round);
    }
    const u32 other = rank() ^ 1;
    ptx::bulk_push(ptx::map_to(slot(turn.slot), other), image(turn.group), kda::image.bytes,
                   ptx::map_to(arrived(turn.slot), other));
  }
};

}  // namespace kda::fused
