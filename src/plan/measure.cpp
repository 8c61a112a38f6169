#include "plan/measure.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <utility>

#include "base/log.hpp"
#include "launch/driver.hpp"
#include "launch/relaxed_capture.hpp"
#include "measure/failure.hpp"
#include "measure/gpu.hpp"
#include "tune/device_measurer.hpp"
#include "tune/random_inputs.hpp"
#include "tune/small_problem.hpp"

namespace kda::plan {

namespace {

Status busy_capturing(const char* what) {
  return {Code::invalid_argument,
          fmt::format("effort = measure while {} is being captured; make the plan before the "
                      "capture, or with Effort::estimate",
                      what)};
}

// Timing allocates, synchronises and would end up in the graph.
Status check_capture(const launch::Driver& driver, Stream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream != nullptr && driver.StreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
      status != CU_STREAM_CAPTURE_STATUS_NONE) {
    return busy_capturing("Options::stream");
  }
  // The legacy stream tells of any capture that it would have to join.
  const CUresult legacy = driver.StreamIsCapturing(CU_STREAM_LEGACY, &status);
  if (legacy == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return busy_capturing("a stream");
  return {};
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Result<tune::Record> search(const Problem& problem, const device::Device& device,
                            const Options& options, cache::Cache& cache) {
  const measure::Gpu gpu(device.ordinal);
  tune::RandomInputs inputs(gpu, problem, cache);
  tune::DeviceMeasurer measurer(gpu, problem, cache, inputs);
  tune::SearchOptions how;
  if (!options.strategy.empty()) how.scope.strategies = {options.strategy};
  how.scope.tuning = options.tuning;
  how.time_limit_seconds = options.time_limit_seconds;
  Result<tune::SearchResult> found =
      tune::search(problem, tune::usual_lengths(problem), device, cache, measurer, how);
  if (!found) return found.status();
  return std::move(found->record);
}

}  // namespace

Result<tune::Record> measure(const Problem& problem, const device::Device& device,
                             const Options& options, cache::Cache& cache, tune::Wisdom& wisdom) {
  if (!device.present()) {
    return Status(Code::invalid_argument,
                  fmt::format("effort = measure, but target = '{}' only names a device; measure "
                              "where it is, or use Effort::estimate",
                              options.target));
  }
  const Result<const launch::Driver*> driver = launch::driver();
  if (!driver) return driver.status();
  if (Status status = check_capture(**driver, options.stream); !status) return status;

  static std::mutex mutex;  // two searches at once would time each other
  const std::string began = now();
  const std::uint64_t before = wisdom.generation();
  const std::lock_guard lock(mutex);
  // Perhaps another thread measured just this while we waited; what was known before is not what
  // the caller wants (KDA_TUNE=off).
  const bool everything = options.strategy.empty() && options.tuning.empty();
  if (everything && wisdom.generation() != before) {
    const std::optional<tune::Hint> hint = wisdom.find(problem, device);
    if (hint && hint->match == tune::Match::exact && hint->record->date >= began) {
      return *hint->record;
    }
  }
  const launch::RelaxedCapture relaxed(**driver);
  try {
    Result<tune::Record> record = search(problem, device, options, cache);
    if (!record) return record;
    record->driver =
        fmt::format("CUDA {}.{}", (*driver)->version / 1000, (*driver)->version % 1000 / 10);
    record->library = "kda, in an application";
    record->date = now();
    if (everything) {
      if (Status kept = wisdom.add(*record); !kept) base::log::warn(kept.message());
    }
    return record;
  } catch (const measure::Failure& failure) {
    return failure.status;
  }
}

}  // namespace kda::plan
