// A trial on a state pool: every slot that nothing should read is NaN, and what nothing should
// write is compared bit for bit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/pooled.hpp"
#include "support/rig.hpp"
#include "support/trial.hpp"

namespace kda::test {

struct PoolTrial {
  Trial trial;  // its problem has state_pool
  reference::Slots slots;
  int gap = 0;         // elements between slots
  int row_gap = 0;     // between the rows of the tables
  bool apart = false;  // final_state is a pool of its own, all NaN before the run
};

PoolTrial complete(PoolTrial trial);
std::string to_text(const PoolTrial& trial);

class PoolRig {
 public:
  PoolRig(const Gpu& gpu, const PoolTrial& trial);

  // The run as Plan::run wants it, until the next reset or change of slots.
  const Forward& forward() const { return forward_; }
  Rig& rig() { return rig_; }

  // Puts the pools back as they were before the run.
  void reset();
  // Other slots in the same device memory, as between replays of a graph; the pools are reset.
  void change(const reference::Slots& slots);

  // Resets, runs once and judges.  Empty: right.
  std::string run(const Plan& plan);
  // What the last run did against the truth.
  std::string judge();
  // Of that the pools alone: states that one sequence wrote, slots and gaps that none did.
  std::string judge_pools();

 private:
  const reference::PooledOutputs& expected();
  std::string judge_outputs();
  void upload_table(DeviceMemory& memory, const std::vector<std::int64_t>& values, int columns);
  std::vector<std::byte> placed_pool() const;

  const Gpu& gpu_;
  PoolTrial trial_;
  Truth truth_;
  Rig rig_;
  std::vector<std::byte> before_;  // the initial pool, contiguous, NaN where nothing starts
  std::optional<reference::PooledOutputs> expected_;
  DeviceMemory pool_, final_pool_, indices_, initial_indices_, accepted_, checkpoints_;
  Forward forward_;
};

}  // namespace kda::test
