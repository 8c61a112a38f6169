// At first the groups of a block begin one after another, each when the one before has its decays:
// groups that all want the same at once are slower, and so they stay apart.
#pragma once

#include "ptx/barrier.cuh"
#include "sm90/factors/group.cuh"

namespace kda {

struct Stagger {
  static constexpr u32 both = 2 * Group::threads;

  static KDA_DEVICE void wait() {
    if (Group::number() > 0) ptx::barrier_wait(barrier(Group::number()), both);
  }
  static KDA_DEVICE void pass() {
    if (Group::number() + 1 < tune.groups) ptx::barrier_arrive(barrier(Group::number() + 1), both);
  }

 private:
  static KDA_DEVICE u32 barrier(int group) { return tune.groups + group; }  // past Group's own
};

}  // namespace kda
