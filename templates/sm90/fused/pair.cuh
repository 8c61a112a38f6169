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
#include "ptx/shared_words.cuh"
#include "sm90/factors/group.cuh"

namespace kda::fused {

constexpr int groups = tune.groups;
constexpr abi::fused::Layout layout = abi::fused::layout(shape, groups);
constexpr int group_bytes = layout.group;
constexpr int group_threads = abi::fused::group_threads(groups);
constexpr bool by_teams = abi::fused::by_teams(groups);
// By teams it is told twice that factors are there: of Kd, Qd and the decay, by which a step
// begins, and of Ak and Aq, which write.
constexpr int tellings = by_teams ? 2 : 1;
static_assert(abi::fused::fits(shape, groups), "barriers and steps need room that others leave");
static_assert(layout.kept % abi::state_box::align == 0);

// What a warp that walks wants to know of a chunk.  As makers, groups and slots take turns it is
// found once for some chunks, and the others' are the same again.
struct alignas(16) Step {
  u32 data;   // shared address of the factors
  u32 ready;  // barrier: they are there, by teams the first of them
  u32 taken;  // barrier of who made them: they have been taken; the other block's as mapped
  u32 state;  // phase of `ready`, and `own` where this block has made them

  static constexpr u32 own = 2;
};
static_assert(sizeof(Step) == abi::fused::step_bytes);
constexpr int steps = abi::fused::steps(layout, groups);

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

  // A group's factors are there; the other block's are in a slot; all who walk, here and there,
  // have done with a group's.
  KDA_DEVICE u32 made(int group) const { return at(group); }
  KDA_DEVICE u32 arrived(int number) const { return at(groups + number); }
  KDA_DEVICE u32 taken(int group) const { return at(tellings * (groups + layout.slots) + group); }
  // From the barrier of a team's rows, or of the slot that they come to, to that of its writers.
  static constexpr u32 to_writers = by_teams ? (groups + layout.slots) * 8 : 0;
  // A chunk's v is there; all warps that walk have read it, and left their part of o; o's place is
  // free again.
  KDA_DEVICE u32 brought(int place) const { return taken(groups + place); }
  KDA_DEVICE u32 read() const { return brought(layout.places); }
  KDA_DEVICE u32 left() const { return read() + 8; }
  KDA_DEVICE u32 free() const { return read() + 16; }
  // A group's raw rows are there.
  KDA_DEVICE u32 landed(int group) const { return read() + 24 + group * 8; }
  // Of chunks by their number among `steps`.
  KDA_DEVICE u32 step(int number) const {
    return memory + layout.steps + number * abi::fused::step_bytes;
  }
  // A word behind the barriers: whether parts are cut (stream.cuh); or, where states are carried,
  // of how many of a segment's first chunks factors are kept.
  KDA_DEVICE u32 decision() const { return landed(groups); }
  static_assert(((2 + tellings) * groups + tellings * layout.slots + layout.places + 4) * 8 <=
                abi::fused::barrier_bytes(by_teams));

  // Where v comes to, and o where it has no place of its own.
  static constexpr bool in_place = layout.places > 1;
  KDA_DEVICE u32 v(u32 place) const { return memory + layout.values + place * values_bytes; }
  KDA_DEVICE u32 o() const { return v(1); }
  // Where warps that walk note their next pieces (task.cuh).
  static constexpr int tasks = layout.arriving + kda::image.bytes;

  // A warp's box of a checkpoint.
  KDA_DEVICE u32 kept(u32 warp) const {
    return memory + layout.kept + warp * abi::state_box::bytes(shape);
  }
  static constexpr int value_row = abi::fused::columns * 2;  // bytes
  static constexpr int values_bytes = chunk * value_row;

  // By one thread of each block, before the cluster meets.
  KDA_DEVICE void init() const {
    for (int i = 0; i < groups; ++i) {
      ptx::mbarrier_init(made(i), group_threads);
      ptx::mbarrier_init(taken(i), takers);
      if (by_teams) ptx::mbarrier_init(made(i) + to_writers, group_threads);
      ptx::mbarrier_init(landed(i), group_threads / 32);  // a warp each (start() of both Loads)
    }
    for (int i = 0; i < layout.slots; ++i) {
      ptx::mbarrier_init(arrived(i), 1);
      if (by_teams) ptx::mbarrier_init(arrived(i) + to_writers, 1);
    }
    for (int i = 0; i < layout.places; ++i) ptx::mbarrier_init(brought(i), 1);
    ptx::mbarrier_init(read(), warps);
    ptx::mbarrier_init(left(), warps);
    ptx::mbarrier_init(free(), 1);
    ptx::fence_barrier_init();
  }

  // By the first threads of the block, before the cluster meets; barriers' arrivals are not known
  // by then.
  KDA_DEVICE void init_step(int number) const {
    if (number >= steps) return;
    const u32 maker = number % abi::fused::blocks;
    const int own = number / abi::fused::blocks;  // among the maker's
    const u32 taken = this->taken(own % groups);
    const bool here = maker == rank();
    const u32 phase = here ? own / groups : own / layout.slots;
    ptx::st_shared_u32x4(
        step(number),
        make_uint4(here ? image(own % groups) : slot(own % layout.slots),
                   here ? made(own % groups) : arrived(own % layout.slots),
                   here ? taken : ptx::map_to(taken, maker), phase % 2 + (here ? Step::own : 0)));
  }

  // By one thread of a group: its factors, once they are there, to the other block.  number: of
  // the chunk; round: how many the group has made before, by parity.
  KDA_DEVICE void push(int group, u32 number, u32 round) const {
    asm volatile("" : "+r"(group));  // what follows from it is not held from chunk to chunk
    ptx::mbarrier_wait(made(group), round);
    // The slot's last chunk has been taken; with fewer groups than slots this one's last chunk came
    // later, and it has waited for that.
    wait_for_slot(group, round);
    const u32 other = rank() ^ 1;
    const int slot = static_cast<int>(number % layout.slots);
    const u32 barrier = ptx::map_to(arrived(slot), other);
    ptx::mbarrier_arrive_expecting_remote(barrier, kda::image.bytes);
    ptx::bulk_push(ptx::map_to(this->slot(slot), other), image(group), kda::image.bytes, barrier);
  }

  // The same in two parts: Kd, Qd and the decay as soon as these are there, and the rest.
  KDA_DEVICE void push_rows(int group, u32 number, u32 round) const {
    wait_for_slot(group, round);
    const Push push(*this, group, number, 0,
                    2 * Factor::bytes + kda::image.bytes - kda::image.decay);
    push.send(kda::image.kd, Factor::bytes);
    push.send(kda::image.qd, Factor::bytes);
    push.send(kda::image.decay, kda::image.bytes - kda::image.decay);
  }
  KDA_DEVICE void push_writers(int group, u32 number, u32 round) const {
    ptx::mbarrier_wait(made(group) + to_writers, round);
    const Push push(*this, group, number, to_writers,
                    kda::image.decay - kda::image.ak + Square::bytes);
    push.send(kda::image.ak, kda::image.decay - kda::image.ak);
    push.send(kda::image.aq, Square::bytes);
  }

 private:
  KDA_DEVICE u32 at(int number) const { return memory + layout.barriers + number * 8; }

  // Pieces of an image on their way to the other block.
  struct Push {
    u32 from, to, barrier;

    KDA_DEVICE Push(const Pair& pair, int group, u32 number, u32 to_barrier, u32 bytes)
        : from(pair.image(group)) {
      const u32 other = rank() ^ 1;
      const int slot = static_cast<int>(number % layout.slots);
      barrier = ptx::map_to(pair.arrived(slot) + to_barrier, other);
      to = ptx::map_to(pair.slot(slot), other);
      ptx::mbarrier_arrive_expecting_remote(barrier, bytes);
    }
    KDA_DEVICE void send(int at, u32 bytes) const {
      ptx::bulk_push(to + at, from + at, bytes, barrier);
    }
  };

  KDA_DEVICE void wait_for_slot(int group, u32 round) const {
    if constexpr (layout.slots < groups) {
      const bool of_last_round = group < layout.slots;
      ptx::mbarrier_wait(
          taken(of_last_round ? group - layout.slots + groups : group - layout.slots),
          of_last_round ? round ^ 1 : round);
    }
  }
};

}  // namespace kda::fused
