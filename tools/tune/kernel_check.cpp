// kda-tune doctor --kernels: does what this NVRTC makes compute KDA on these devices?  Each
// strategy runs by its default tuning and is held against the fp64 recurrence, in a process that
// may fault.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/failure.hpp"
#include "device/device.hpp"
#include "device/family.hpp"
#include "launch/driver.hpp"
#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "tune/checks.hpp"
#include "tune/configuration.hpp"
#include "worker/pool.hpp"

namespace kda::tune_tool {
namespace {

using cli::Json;
using cli::must;
using strategy::Strategy;

// A compile of several kernels on a busy machine, not a run, is what takes long.
constexpr double kSecondsEach = 120;

// Each strategy serves one of them.  Odd lengths, one of many chunks; two heads, whole in fp64.
std::vector<worker::Subject> subjects() {
  Problem pack{.heads = 2, .max_tokens = 1000, .max_sequences = 3, .varlen = true};
  pack.initial_state = pack.final_state = true;
  Problem plain_beta = pack;  // which may pass 1
  plain_beta.beta_is_logit = false;
  Problem dense = pack;
  dense.varlen = false;
  dense.max_sequences = 1;
  const std::vector<std::int64_t> lengths = {713, 280, 7};
  return {{must(problem::complete(pack)), lengths},
          {must(problem::complete(plain_beta)), lengths},
          {must(problem::complete(dense)), {1000}}};
}

Json row_of(int device, const tune::Measurement& m, const worker::Subject& subject) {
  Json row{{"device", device},
           {"strategy", m.candidate.strategy},
           {"outcome", m.outcome == tune::Outcome::ok ? "right" : tune::name_of(m.outcome)},
           {"tuning", tunable::to_text(m.candidate.tuning)},
           {"problem", problem::to_text(subject.problem)}};
  if (m.o_error > 0) row.update({{"o_error", m.o_error}, {"state_error", m.state_error}});
  if (!m.why.empty()) row["why"] = m.why;
  return row;
}

// Each strategy on the first subject that it serves.
Json rows_of(const device::Device& device, std::vector<const Strategy*> left,
             const std::string& cache_dir) {
  worker::Pool pool(
      {.devices = {device.ordinal}, .cache_dir = cache_dir, .candidate_seconds = kSecondsEach});
  Json rows = Json::array();
  const std::vector<worker::Subject> all = subjects();
  for (const worker::Subject& subject : all) {
    std::vector<tune::Candidate> candidates;
    std::erase_if(left, [&](const Strategy* each) {
      if (!each->applicable(subject.problem, device)) return false;
      candidates.push_back({each->name, each->defaults(subject.problem, device)});
      return true;
    });
    if (candidates.empty()) continue;
    pool.enter(subject);
    must(pool.measure(candidates, {.repeats = 3, .at_size = true},
                      [&](std::size_t, const tune::Measurement& m) {
                        rows.push_back(row_of(device.ordinal, m, subject));
                      }));
  }
  for (const Strategy* each : left) {
    rows.push_back({{"device", device.ordinal},
                    {"strategy", each->name},
                    {"outcome", "not served"},
                    {"why", each->applicable(all.front().problem, device).message()}});
  }
  return rows;
}

// Which strategies are right, or what became of those that are not.
void add_summary(const Json& rows, int ordinal, Checks& checks) {
  double worst = 0;
  std::string right, others;
  for (const Json& row : rows) {
    const auto strategy = row["strategy"].get<std::string>();
    const auto outcome = row["outcome"].get<std::string>();
    if (outcome == "right") {
      right += (right.empty() ? "" : ", ") + strategy;
      worst = std::max({worst, row.value("o_error", 0.0), row.value("state_error", 0.0)});
    } else if (outcome != "not served") {
      others +=
          fmt::format("{}{}: {}", others.empty() ? "" : "; ", strategy, row.value("why", outcome));
    }
  }
  const std::string check = fmt::format("kernels on {}", ordinal);
  if (!others.empty()) {
    checks.add(check.c_str(), "bad", others);
  } else {
    checks.add(check.c_str(), right.empty() ? "none" : "ok",
               right.empty()
                   ? "no strategy serves this device"
                   : fmt::format("the fp64 recurrence's results within {:.2g}: {}", worst, right));
  }
}

}  // namespace

Json check_kernels(const Request& request, Checks& checks) {
  std::vector<const Strategy*> strategies = strategies_of(request);
  if (strategies.empty()) strategies.assign(strategy::table().begin(), strategy::table().end());
  Json rows = Json::array();
  int count = 0;
  const Result<const launch::Driver*> driver = launch::driver();
  if (!driver || (*driver)->DeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
    checks.add("kernels", "none", "no device to run them on");
    return rows;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const Result<device::Device> device = device::query(ordinal);
    if (!device || !device::family_of(*device)) continue;  // `devices` says so
    try {
      const Json here = rows_of(*device, strategies, request.cache_dir);
      add_summary(here, ordinal, checks);
      rows.insert(rows.end(), here.begin(), here.end());
    } catch (const cli::Failure& failure) {
      checks.add(fmt::format("kernels on {}", ordinal).c_str(), "bad", failure.what());
    }
  }
  return rows;
}

}  // namespace kda::tune_tool
