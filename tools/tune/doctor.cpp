#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/env.hpp"
#include "cache/cache.hpp"
#include "cache/layout.hpp"
#include "cli/build_info.hpp"
#include "cli/exit_code.hpp"
#include "cli/machine.hpp"
#include "compile/nvrtc.hpp"
#include "compile/toolchain.hpp"
#include "compose/embedded.hpp"
#include "device/family.hpp"
#include "launch/driver.hpp"
#include "strategy/table.hpp"
#include "tune/cache_health.hpp"
#include "tune/checks.hpp"
#include "tune/commands.hpp"
#include "tune/environment.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;

constexpr Column kChecks[] = {{"check", "check"}, {"state", "state"}, {"found", "found"}};
constexpr Column kDevices[] = {
    {"ordinal", "#"},     {"name", "device"},         {"capability", "capability"},
    {"target", "target"}, {"multiprocessors", "SMs"}, {"shared_bytes", "smem B a block"},
    {"l2_bytes", "L2 B"}, {"trouble", "trouble"}};
constexpr Column kKernelChecks[] = {
    {"device", "#"},           {"strategy", "strategy"},          {"outcome", "outcome"},
    {"o_error", "o error", 5}, {"state_error", "state error", 5}, {"why", "why"}};
constexpr Column kEnvironment[] = {
    {"name", "variable"}, {"value", "value"}, {"default", "unset means"}, {"meaning", "meaning"}};

// Whether NVRTC is there and makes a cubin.
void check_compiler(Checks& checks) {
  const Result<std::string> path = compile::library_path();
  const Result<std::string> identity = compile::identity();
  if (!path || !identity) {
    checks.add("NVRTC", "bad", (path ? identity.status() : path.status()).message());
    return;
  }
  checks.add("NVRTC", "ok", fmt::format("{} at {}", *identity, *path));
  for (const char* target : {"sm_89", "sm_90a"}) {
    const compile::Job job{.source = "extern \"C\" __global__ void kda_doctor() {}\n",
                           .entry = "kda_doctor",
                           .target = target,
                           .options = compile::options(target)};
    const Result<compile::Build> build = compile::compile(job, {});
    const std::string check = fmt::format("compiles for {}", target);
    if (build) {
      checks.add(
          check.c_str(), "ok",
          fmt::format("an empty kernel in {:.0f} ms", build->resources.compile_milliseconds));
    } else {
      checks.add(check.c_str(), "bad", build.status().message());
    }
  }
}

Json check_devices(Checks& checks) {
  Json rows = Json::array();
  const Result<const launch::Driver*> driver = launch::driver();
  if (!driver) {
    checks.add("driver", "none", driver.status().message() + " (plans compile but cannot run)");
    return rows;
  }
  checks.add("driver", "ok", cli::driver_text());
  if (const Result<compile::Toolchain> compiler = compile::toolchain();
      compiler && compiler->major > (*driver)->version / 1000) {
    checks.add("NVRTC and driver", "bad",
               fmt::format("NVRTC {}.{} is newer than the driver's CUDA {}: its kernels may not "
                           "load; update the driver or set KDA_NVRTC_PATH to an older one",
                           compiler->major, compiler->minor, (*driver)->version / 1000));
  }
  int count = 0;
  const Status counted = launch::check((*driver)->DeviceGetCount(&count), "cuDeviceGetCount");
  if (!counted.ok() || count == 0) {
    checks.add("devices", counted.ok() ? "none" : "bad",
               counted.ok() ? "the driver sees no device" : counted.message());
    return rows;
  }
  bool served = true;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Json& row = rows.emplace_back(Json{{"ordinal", ordinal}});
    const Result<device::Device> device = device::query(ordinal);
    if (!device) {
      row["trouble"] = device.status().message();
      served = false;
      continue;
    }
    const Result<device::Family> family = device::family_of(*device);
    row.update({{"name", device->name},
                {"capability", fmt::format("{}.{}", device->major, device->minor)},
                {"multiprocessors", device->multiprocessors},
                {"shared_bytes", device->shared_per_block},
                {"l2_bytes", device->l2_bytes}});
    if (family) row["target"] = family->target;
    if (!family) row["trouble"] = family.status().message();
    served = served && family;
  }
  checks.add("devices", served ? "ok" : "bad",
             fmt::format("{}{}", count, served ? "" : ", not all served: see below"));
  return rows;
}

void check_cache(const Request& request, Checks& checks) {
  const CacheHealth health = cache_health(request.cache_dir);
  if (!health.distrusted.empty()) {
    checks.add("cache", "bad", "the library does not use it: " + health.distrusted);
    return;
  }
  if (health.directory.empty()) {
    checks.add("cache", "none", "memory only: every process compiles anew");
    return;
  }
  const std::string found = fmt::format(
      "{}: {} entries, {:.1f} MB, {} damaged, {} set aside earlier", health.directory,
      health.entries, static_cast<double>(health.bytes) / 1e6, health.damaged, health.set_aside);
  const bool writes = base::env::cache_mode() == base::env::CacheMode::read_write;
  if (!health.unreadable.empty()) {
    checks.add("cache", "bad", "it cannot be looked into: " + health.unreadable);
  } else if (writes && !health.trouble.empty()) {
    checks.add("cache", "bad", found + "; " + health.trouble);
  } else {
    checks.add("cache", health.damaged == 0 ? "ok" : "bad", found);
  }
  for (const std::string& root : cache::shared_cache(request.cache_dir)->more_directories()) {
    const std::string trouble = cache::Layout(root).list_trouble();
    if (!trouble.empty()) checks.add("cache", "bad", "KDA_CACHE_PATH: " + trouble);
  }
}

Json environment() {
  Json rows = Json::array();
  for (const base::env::Variable& row : base::env::table()) {
    const std::string value = base::env::get(row.name);
    rows.push_back({{"name", row.name},
                    {"value", value.empty() ? Json(nullptr) : Json(value)},
                    {"default", row.fallback},
                    {"meaning", row.meaning}});
  }
  return rows;
}

}  // namespace

int doctor(const Request& request) {
  cli::Document document(request.output);
  Checks checks;
  checks.add("kda", "ok",
             fmt::format("{}, commit {}, {} strategies, {} templates {}", cli::version(),
                         cli::commit(), strategy::table().size(), compose::embedded_files().size(),
                         tune::templates_digest()));
  check_compiler(checks);
  const Json devices = check_devices(checks);
  check_cache(request, checks);
  check_cache_path(checks);
  check_wisdom(checks);
  const Json kernels = request.kernels ? check_kernels(request, checks) : Json::array();
  for (const std::string& complaint : base::env::complaints()) {
    checks.add("environment", "bad", complaint);
  }
  for (const std::string& name : base::env::unknown_names()) {
    checks.add("environment", "none", name + " is set, which the library does not read");
  }
  document.add("checks", checks.rows(), kChecks);
  // A table shows the first line, which says that something was tried and not what.
  for (const Json& row : checks.rows()) {
    const auto& found = row["found"].get_ref<const std::string&>();
    if (found.find('\n') == std::string::npos) continue;
    document.say(fmt::format("{} in full:\n{}", row["check"].get<std::string>(), found));
  }
  document.add("devices", devices, kDevices);
  if (request.kernels) document.add("kernels", kernels, kKernelChecks);
  document.add("environment", environment(), kEnvironment);
  document.print();
  return checks.healthy() ? cli::kOk : cli::kFailed;
}

}  // namespace kda::tune_tool
