// The workers of a search, one a device: a candidate that faults or hangs costs only itself.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tune/search.hpp"
#include "worker/inputs.hpp"

namespace kda::worker {

struct PoolOptions {
  // What starts the worker of a device; empty: this program's `worker` subcommand.
  std::function<std::vector<std::string>(int device)> command;
  std::vector<int> devices = {0};  // ordinals; candidates are split over them
  std::string cache_dir;
  double candidate_seconds = 15;  // the watchdog: for one candidate, inputs aside ...
  double finals_seconds = 120;    // ... for the finals, with the reference at size
  double inputs_seconds = 300;    // ... for a worker to start and make its inputs
  // Nothing lasts longer, whatever it is at.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

class Pool : public tune::Measurer {
 public:
  explicit Pool(PoolOptions options);
  ~Pool() override;

  // What is measured from now on; workers stay as they are where they can.
  void enter(const Subject& subject);

  // Fails where no worker can be started or made ready: no device, no memory.
  Status measure(std::span<const tune::Candidate> candidates, const tune::Timing& timing,
                 const Done& done) override;
  int width() const override;

  // Workers started since the beginning: one a device, and one more after each fault.
  int starts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda::worker
