#include "bench/report.hpp"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "cli/failure.hpp"
#include "cli/text_file.hpp"
#include "problem/problem.hpp"

namespace kda::bench {
namespace {

using cli::Column;
using cli::Json;

constexpr Column kColumns[] = {
    {"problem", "problem"},
    {"regime", "gate"},
    {"strategy", "strategy"},
    {"tuning", "tuning"},
    {"gpu_us.median", "GPU us", 1},
    {"gpu_us.iqr", "IQR", 1},
    {"gb_per_s", "GB/s", 0},
    {"times_floor", "x floor", 2},
    {"fla_over_ours", "FLA/ours", 2},
    {"ours_over_bar", "of bar", 2},
    {"ours_over_goal", "of goal", 2},
    {"call_us.median", "call us", 1},
    {"run_ns.median", "run ns", 0},
    {"registers", "regs"},
    {"spill_bytes", "spills"},
    {"shared_kb", "smem KB", 1},
    {"o_rel_l2", "err o", 5},
    {"state_rel_l2", "err S", 5},
    {"make.cold_ms", "cold ms", 0},
    {"make.disk_ms", "disk ms", 1},
    {"make.memory_us", "memory us", 0},
    {"status", "status"},
};

constexpr Column kLinearColumns[] = {
    {"problem", "problem"},
    {"regime", "gate"},
    {"strategy", "strategy"},
    {"tuning", "tuning"},
    {"gpu_us.median", "GPU us", 1},
    {"ns_per_token", "ns/token", 2},
    {"times_floor", "x floor", 2},
    {"workspace_bytes", "workspace"},
    {"workspace_bytes_per_token", "B/token", 1},
    {"o_rel_l2", "err o", 5},
    {"state_rel_l2", "err S", 5},
    {"status", "status"},
};

Json json_of(const measure::Summary& summary) {
  return {{"median", summary.median}, {"iqr", summary.iqr}, {"min", summary.min}, {"n", summary.n}};
}

Json known(double number) { return number > 0 ? Json(number) : Json(nullptr); }

void add_subject(Json& row, const Subject& subject, const Circumstances& circumstances) {
  row["problem"] = subject.name;
  row["regime"] = subject.regime;
  row["words"] = problem::to_text(subject.problem);
  row["cu_seqlens"] = subject.cu_seqlens;
  row["seed"] = circumstances.seed;
  if (circumstances.beta) row["beta"] = *circumstances.beta;
}

void add_variant(Json& row, const Variant& variant) {
  row["strategy"] = variant.strategy.empty() ? variant.wanted.strategy : variant.strategy;
  row["tuning"] = variant.tuning.empty() ? variant.wanted.tuning : variant.tuning;
  row["wanted_strategy"] = variant.wanted.strategy;
  row["wanted_tuning"] = variant.wanted.tuning;
  std::string registers, spills, shared;
  Json kernels = Json::object();
  for (const KernelNeeds& kernel : variant.kernels) {
    const char* between = registers.empty() ? "" : "/";
    registers += fmt::format("{}{}", between, kernel.registers);
    spills += fmt::format("{}{}", between, kernel.spill_bytes);
    shared += fmt::format("{}{:.1f}", between, static_cast<double>(kernel.shared_bytes) / 1024);
    kernels[kernel.stage] = {{"template", kernel.path},
                             {"threads", kernel.threads},
                             {"registers", kernel.registers},
                             {"spill_bytes", kernel.spill_bytes},
                             {"shared_bytes", kernel.shared_bytes},
                             {"compile_ms", kernel.compile_ms}};
  }
  if (!variant.kernels.empty()) {
    row["registers"] = registers;
    row["spill_bytes"] = spills;
    row["shared_kb"] = shared;
    row["kernels"] = kernels;
  }
  if (variant.plan) {
    const std::size_t bytes = variant.plan->workspace_bytes();
    row["workspace_bytes"] = bytes;
    row["workspace_bytes_per_token"] =
        static_cast<double>(bytes) / static_cast<double>(variant.plan->problem().max_tokens);
  }
  if (variant.make_time) {
    row["make"] = {{"cold_ms", variant.make_time->cold_ms},
                   {"disk_ms", variant.make_time->disk_ms},
                   {"memory_us", variant.make_time->memory_us}};
  }
}

void add_gpu_time(Json& row, const GpuTime& gpu, const Subject& subject,
                  const Circumstances& circumstances) {
  const double median = gpu.summary.median;
  row["gpu_us"] = json_of(gpu.summary);
  row["calls_a_graph"] = gpu.calls;
  row["ns_per_token"] = 1e3 * median / static_cast<double>(subject.problem.max_tokens);
  row["gb_per_s"] = cli::floor_bytes(subject.problem) / median / 1e3;
  row["times_floor"] =
      median / (1e6 * cli::floor_bytes(subject.problem) / circumstances.copy_bytes_per_second);
  if (const reference::Case* peers = subject.peers) {
    row["fla_over_ours"] = known(peers->fla / median);
    row["ours_over_bar"] = known(median / peers->bar);
    row["ours_over_goal"] = known(median / peers->goal);
  }
}

std::string status_of(const Measurement& m) {
  if (!m.skipped.empty()) return m.skipped;
  if (m.variant != nullptr && !m.variant->status.ok()) {
    return fmt::format("{}: {}", name_of(m.variant->status.code()), m.variant->status.message());
  }
  if (m.verdict && !m.verdict->right) return "WRONG: " + m.verdict->why;
  return "ok";
}

void add_circumstances(Json& row, const Subject& subject, const Circumstances& c) {
  const double bytes = cli::floor_bytes(subject.problem);
  row["floor_bytes"] = bytes;
  row["floor_us"] = 1e6 * bytes / c.copy_bytes_per_second;
  row["copy_gb_per_s"] = c.copy_bytes_per_second / 1e9;
  row["device"] = c.machine.device;
  row["capability"] = c.machine.capability;
  row["multiprocessors"] = c.machine.multiprocessors;
  row["driver"] = c.machine.driver;
  row["nvrtc"] = c.machine.nvrtc;
  row["version"] = c.machine.version;
  row["commit"] = c.machine.commit;
  row["date"] = c.machine.date;
  row["command"] = c.command;
}

}  // namespace

Json row_of(const Measurement& m, const Circumstances& circumstances) {
  Json row = Json::object();
  add_subject(row, *m.subject, circumstances);
  if (m.variant != nullptr) add_variant(row, *m.variant);
  row["status"] = status_of(m);
  if (m.verdict) {
    row["o_rel_l2"] = m.verdict->o_error;
    row["state_rel_l2"] =
        m.subject->problem.final_state ? Json(m.verdict->state_error) : Json(nullptr);
    row["heads_verified"] = m.heads_verified;
  }
  if (m.gpu) add_gpu_time(row, *m.gpu, *m.subject, circumstances);
  if (m.gpu) row["buffer_sets"] = m.sets;
  if (m.host) {
    row["call_us"] = json_of(m.host->call_us);
    row["run_ns"] = json_of(m.host->run_ns);
  }
  add_circumstances(row, *m.subject, circumstances);
  return row;
}

std::span<const Column> columns(const Request& request) {
  if (request.suite == kLinear) return kLinearColumns;
  return kColumns;
}

void print(const Json& rows, std::span<const Column> columns, const Request& request) {
  std::exception_ptr first;
  // Where one place fails the others have what was measured all the same.
  const auto write = [&](const std::string& path, cli::Format format) {
    if (path.empty()) return;
    try {
      cli::write_text(path, cli::render(rows, columns, format), request.out);
    } catch (const cli::Failure&) {
      if (!first) first = std::current_exception();
    }
  };
  write(request.json, cli::Format::json);
  write(request.md, cli::Format::md);
  write(request.csv, cli::Format::csv);
  const bool taken =
      cli::is_stdout(request.json) || cli::is_stdout(request.md) || cli::is_stdout(request.csv);
  if (!taken) write("-", cli::Format::table);
  if (first) std::rethrow_exception(first);
}

}  // namespace kda::bench
