#include "plan/kept.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"

namespace kda::plan {

namespace {

// Their code takes some 100 KB of device memory each; their graphs come on top.
constexpr std::size_t kMaxKept = 64;

struct Row {
  Recall recall;
  std::shared_ptr<const Plan::Impl> plan;
};

struct Rows {
  base::ForkMutex mutex{base::ForkRank::plans};
  std::list<Row> list;  // the last used first
};

Rows& rows() {
  static constinit base::Lazy<Rows> rows;
  return rows.get();
}

void forget(const std::shared_ptr<const Plan::Impl>& plan) {
  Rows& all = rows();
  const std::lock_guard lock(all.mutex);
  all.list.remove_if([&](const Row& row) { return row.plan == plan; });
}

std::shared_ptr<const Plan::Impl> find(const Recall& wanted) {
  Rows& all = rows();
  const std::lock_guard lock(all.mutex);
  const auto row = std::find_if(all.list.begin(), all.list.end(),
                                [&](const Row& each) { return each.recall == wanted; });
  if (row == all.list.end()) return nullptr;
  all.list.splice(all.list.begin(), all.list, row);
  return row->plan;
}

}  // namespace

Result<std::unique_ptr<const Plan::Impl>> copy_of(const Plan::Impl& plan) {
  auto copy = std::make_unique<Plan::Impl>(plan);
  std::vector<program::Kernel>& kernels = copy->program.kernels;
  std::vector<launch::Module> modules;
  modules.reserve(kernels.size());
  for (program::Kernel& kernel : kernels) {
    kernel.origin = cache::Origin::memory;
    modules.push_back(kernel.module);
  }
  if (copy->device.present()) {
    if (Status ready = launch::Module::renew(modules, copy->device.ordinal); !ready) return ready;
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) kernels[i].module = std::move(modules[i]);
  if (std::shared_ptr<launch::GraphPool>& graphs = copy->program.graphs; graphs != nullptr) {
    graphs = launch::GraphPool::renewed(graphs, copy->device.ordinal);
  }
  return std::unique_ptr<const Plan::Impl>(std::move(copy));
}

std::unique_ptr<const Plan::Impl> recall(const Recall& wanted) {
  const std::shared_ptr<const Plan::Impl> kept = find(wanted);
  if (!kept) return nullptr;
  Result<std::unique_ptr<const Plan::Impl>> plan = copy_of(*kept);
  if (plan) {
    const auto& graphs = (*plan)->program.graphs;
    if (graphs != nullptr && graphs != kept->program.graphs) keep(wanted, **plan);
    return *std::move(plan);
  }
  base::log::info("a kept plan is made anew: " + plan.status().message());
  forget(kept);
  return nullptr;
}

void keep(Recall recall, const Plan::Impl& plan) {
  auto kept = std::make_shared<Plan::Impl>(plan);
  for (program::Kernel& kernel : kept->program.kernels) kernel.module = kernel.module.parked();
  Rows& all = rows();
  std::list<Row> gone;  // their libraries are unloaded after the lock is let go
  const std::lock_guard lock(all.mutex);
  for (auto row = all.list.begin(); row != all.list.end();) {
    const auto next = std::next(row);
    // What an earlier driver made only takes up room.
    if (row->recall == recall || row->recall.driver != recall.driver) {
      gone.splice(gone.end(), all.list, row);
    }
    row = next;
  }
  all.list.push_front({std::move(recall), std::move(kept)});
  while (all.list.size() > kMaxKept) gone.splice(gone.end(), all.list, --all.list.end());
}

void forget_all() {
  std::list<Row> gone;
  Rows& all = rows();
  const std::lock_guard lock(all.mutex);
  gone.swap(all.list);
}

}  // namespace kda::plan
