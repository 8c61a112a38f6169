#include "tune/build.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kda::tune {

namespace {

constexpr int kRegistersPerMultiprocessor = 65536;  // of every capability served
constexpr int kMostRegisters = 255;                 // a thread
constexpr unsigned kMostThreads = 1024;             // a block
constexpr std::size_t kReservedShared = 1024;       // the system's part of a block's shared memory
constexpr unsigned kWarp = 32;
constexpr int kRegisterUnit = 256;  // a warp's registers are given in these
constexpr unsigned kMostBlocks = 32;

unsigned most_threads(const device::Device& device) {
  const bool full = device.minor == 0 && (device.major == 8 || device.major == 9);
  return full || device.major == 10 ? 2048 : 1536;
}

Measurement refused(Measurement m, Outcome outcome, std::string why) {
  m.outcome = outcome;
  m.why = std::move(why);
  return m;
}

Measurement judge(const Listed& listed, const Result<program::Program>& program,
                  const device::Device& device) {
  Measurement m;
  m.candidate = listed.candidate;
  m.expected_us = listed.expected_us;
  if (!program) {
    const bool too_big = program.status().code() == Code::unsupported;
    return refused(std::move(m), too_big ? Outcome::occupancy : Outcome::compile,
                   program.status().message());
  }
  m.needs = needs_of(*program, device);
  m.needs.workspace_bytes = listed.recipe.workspace_bytes;
  if (m.needs.occupancy <= 0) {
    std::string why = fmt::format(
        "no block of {} threads with {} registers each and {} bytes of shared memory fits a "
        "multiprocessor",
        m.needs.threads, m.needs.registers, m.needs.shared_bytes);
    return refused(std::move(m), Outcome::occupancy, std::move(why));
  }
  if (m.needs.spill_bytes > 0 && !listed.is_default) {
    std::string why = fmt::format("{} bytes of registers spill", m.needs.spill_bytes);
    return refused(std::move(m), Outcome::spills, std::move(why));
  }
  return m;
}

}  // namespace

double occupancy(int registers, unsigned threads, std::size_t shared_bytes,
                 const device::Device& device) {
  if (registers > kMostRegisters || threads == 0 || threads > kMostThreads) return 0;
  const unsigned warps = (threads + kWarp - 1) / kWarp;
  const int a_warp = (std::max(registers, 1) * static_cast<int>(kWarp) + kRegisterUnit - 1) /
                     kRegisterUnit * kRegisterUnit;
  const auto by_registers = static_cast<unsigned>(kRegistersPerMultiprocessor / a_warp) / warps;
  const auto by_shared = static_cast<unsigned>(std::min<std::size_t>(
      device.shared_per_multiprocessor / (shared_bytes + kReservedShared), kMostBlocks));
  const unsigned by_threads = most_threads(device) / (warps * kWarp);
  const unsigned blocks = std::min({by_registers, by_shared, by_threads, kMostBlocks});
  return static_cast<double>(blocks * warps * kWarp) / most_threads(device);
}

Needs needs_of(const program::Program& program, const device::Device& device) {
  Needs needs;
  needs.workspace_bytes = program.recipe.workspace_bytes;
  needs.occupancy = 1;
  for (const program::Kernel& kernel : program.kernels) {
    const compile::Resources& r = kernel.resources;
    const std::size_t shared =
        kernel.stage.shared_bytes + static_cast<std::size_t>(r.static_shared_bytes);
    needs.registers = std::max(needs.registers, r.registers);
    needs.spill_bytes += r.spill_bytes;
    needs.shared_bytes = std::max(needs.shared_bytes, shared);
    needs.threads = std::max(needs.threads, kernel.stage.threads);
    needs.occupancy =
        std::min(needs.occupancy, occupancy(r.registers, kernel.stage.threads, shared, device));
    needs.compile_ms += r.compile_milliseconds;
  }
  return needs;
}

std::vector<Measurement> build(std::span<const Listed* const> candidates,
                               const device::Device& device, cache::Cache& cache,
                               unsigned threads) {
  device::Device named = device;
  named.ordinal = -1;  // nothing is loaded
  std::vector<compose::Recipe> recipes;
  recipes.reserve(candidates.size());
  for (const Listed* each : candidates) recipes.push_back(each->recipe);
  const auto programs = program::build_all(std::move(recipes), named, cache, threads);
  std::vector<Measurement> built;
  built.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    built.push_back(judge(*candidates[i], programs[i], device));
  }
  return built;
}

}  // namespace kda::tune
