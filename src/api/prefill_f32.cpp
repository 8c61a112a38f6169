// kda/prefill.h over plans: one a problem and device, kept; the workspace ordered on the stream.
#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "api/last_message.hpp"
#include "base/env.hpp"
#include "base/lazy.hpp"
#include "base/no_memory.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "kda/prefill.h"
#include "launch/driver.hpp"
#include "launch/stream_memory.hpp"
#include "plan/plan.hpp"

namespace kda::api {

namespace {

using SharedPlan = std::shared_ptr<const Plan::Impl>;

template <class... Args>
Status refuse(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::invalid_argument,
          "kda_prefill_f32: " + fmt::format(format, std::forward<Args>(args)...)};
}

struct Knob {
  const char* variable;
  const char* tunable;  // of strategy chunk
};
constexpr Knob kKnobs[] = {{"KDA_INTRA_THREADS", "prepare_threads"},
                           {"KDA_INTER_THREADS", "threads"},
                           {"KDA_INTER_SHARDS", "shards"}};
constexpr std::size_t kShards = 2;

// What a plan is made from.
struct Key {
  Problem problem;
  std::string tuning;
  int ordinal;
  unsigned driver;

  bool operator==(const Key&) const = default;
};

Status check_sizes(const KdaPrefillIO& io) {
  const std::pair<const char*, int> sizes[] = {{"batch_size", io.batch_size},
                                               {"num_heads", io.num_heads},
                                               {"head_dim", io.head_dim},
                                               {"value_dim", io.value_dim},
                                               {"chunk_size", io.chunk_size}};
  for (const auto& [name, value] : sizes) {
    if (value < 1) return refuse("{} = {}; it must be at least 1", name, value);
  }
  if (io.seq_len < 0) return refuse("seq_len = {}; it must be at least 0", io.seq_len);
  const std::int64_t chunks = (std::int64_t{io.seq_len} + io.chunk_size - 1) / io.chunk_size;
  if (io.num_chunks != 0 && io.num_chunks != chunks) {
    return refuse("num_chunks = {}; seq_len = {} in chunks of {} makes {}, or 0 for that",
                  io.num_chunks, io.seq_len, io.chunk_size, chunks);
  }
  if (io.chunk_size != 16 && io.chunk_size != 32 && io.chunk_size != 64) {
    return {
        Code::unsupported,
        fmt::format("kda_prefill_f32: chunk_size = {}; 16, 32 and 64 are served", io.chunk_size)};
  }
  return {};
}

// "prepare_threads=128 shards=2" of what the environment forces.
Result<std::string> forced_tuning(const KdaPrefillIO& io) {
  std::string tuning;
  for (std::size_t i = 0; i < std::size(kKnobs); ++i) {
    const std::string text = base::env::get(kKnobs[i].variable);
    if (text.empty()) continue;
    const std::optional<std::int64_t> value = base::parse_integer(text);
    if (!value || *value < 1) {
      return refuse("{} = '{}' is not a number from 1 up", kKnobs[i].variable, text);
    }
    if (i == kShards && io.value_dim % *value != 0) {
      return refuse("{} = {} does not divide value_dim = {}; take a divisor of it",
                    kKnobs[i].variable, *value, io.value_dim);
    }
    tuning += fmt::format("{}{}={}", tuning.empty() ? "" : " ", kKnobs[i].tunable, *value);
  }
  return tuning;
}

Problem problem_of(const KdaPrefillIO& io) {
  Problem problem;
  problem.heads = problem.value_heads = io.num_heads;
  problem.key_dim = io.head_dim;
  problem.value_dim = io.value_dim;
  problem.max_tokens = std::int64_t{io.batch_size} * io.seq_len;
  problem.max_sequences = io.batch_size;
  problem.qkv_type = problem.gate_type = problem.beta_type = DType::f32;
  problem.gate = Gate::logsigmoid;
  problem.beta_is_logit = false;
  // The chunks show in w and u alone; without them the planner may choose.
  problem.wy_chunk = io.w != nullptr || io.u != nullptr ? io.chunk_size : 0;
  return problem;
}

Forward forward_of(const KdaPrefillIO& io) {
  const std::int64_t T = io.seq_len;
  const auto strides = [&](std::int64_t channels) {
    return Strides{io.num_heads * T * channels, channels, T * channels};
  };
  Forward forward{.tokens = io.batch_size * T, .sequences = io.batch_size};
  forward.q = io.q;
  forward.k = io.k;
  forward.v = io.v;
  forward.g = io.g;
  forward.beta = io.beta;
  forward.o = io.o;
  forward.q_strides = forward.k_strides = forward.g_strides = strides(io.head_dim);
  forward.v_strides = forward.o_strides = strides(io.value_dim);
  forward.beta_strides = strides(1);
  forward.w = io.w;
  forward.u = io.u;
  return forward;
}

// The last plans; their number bounds the device memory of their code.  Besides, for good, those
// that a graph has captured: it runs their code whenever it is replayed.
class Kept {
 public:
  SharedPlan find(const Key& key, bool captured) {
    const std::lock_guard lock(mutex_);
    for (auto row = rows_.begin(); row != rows_.end(); ++row) {
      if (row->key != key) continue;
      row->captured = row->captured || captured;
      rows_.splice(rows_.begin(), rows_, row);
      return row->plan;
    }
    return nullptr;
  }
  void keep(const Key& key, SharedPlan plan, bool captured) {
    const std::lock_guard lock(mutex_);
    rows_.remove_if([&](const Row& row) { return row.key == key && !row.captured; });
    rows_.push_front({key, std::move(plan), captured});
    const auto free = [](const Row& row) { return !row.captured; };
    if (std::count_if(rows_.begin(), rows_.end(), free) <= kMostFree) return;
    rows_.erase(std::prev(std::find_if(rows_.rbegin(), rows_.rend(), free).base()));
  }

 private:
  static constexpr std::ptrdiff_t kMostFree = 64;
  struct Row {
    Key key;
    SharedPlan plan;
    bool captured;
  };
  std::mutex mutex_;
  std::list<Row> rows_;
};

Kept& kept() {
  static constinit base::Lazy<Kept> kept;
  return kept.get();
}

bool is_captured(const launch::Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.StreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<SharedPlan> make(const Key& key, bool captured) {
  Options options{.device = key.ordinal, .tuning = key.tuning};
  if (!key.tuning.empty()) options.strategy = "chunk";
  plan::Made made = std::move(plan::make_all({&key.problem, 1}, options).front());
  if (!made) return made.status();
  SharedPlan plan = *std::move(made);
  kept().keep(key, plan, captured);
  return plan;
}

Status run(const Plan::Impl& plan, const Forward& forward, CUstream stream) {
  const std::size_t bytes = plan.program.recipe.workspace_bytes;
  const auto workspace = launch::StreamMemory::take(plan.device.ordinal, bytes, stream);
  if (!workspace) return workspace.status();
  return plan::run(plan, forward, workspace->data(), bytes, stream);
}

Status prefill(const KdaPrefillIO* io, CUstream stream) {
  if (io == nullptr) return refuse("io is null");
  if (Status status = check_sizes(*io); !status) return status;
  const Result<std::string> tuning = forced_tuning(*io);
  if (!tuning) return tuning.status();
  if (io->seq_len == 0) return {};
  const Result<const launch::Driver*> driver = launch::driver();
  if (!driver) return driver.status();
  const Result<int> ordinal = device::ordinal_of(-1);
  if (!ordinal) return ordinal.status();
  const Key key{problem_of(*io), *tuning, *ordinal, launch::driver_generation()};
  const Forward forward = forward_of(*io);
  // Before a plan is made, and memory taken in the stream.
  if (Status status = plan::check(key.problem, forward); !status) return status;
  const bool captured = is_captured(**driver, stream);
  if (const SharedPlan plan = kept().find(key, captured)) {
    Status status = run(*plan, forward, stream);
    // A device that was reset has lost the kernels: they are made again, once.
    const bool lost = status.code() == Code::device_error &&
                      launch::refusal() != CUDA_ERROR_OUT_OF_MEMORY && !captured;
    if (!lost) return status;
  }
  const Result<SharedPlan> plan = make(key, captured);
  if (!plan) return plan.status();
  return run(**plan, forward, stream);
}

// The cudaError_t of a failure; CUresult has the same numbers.
int error_of(const Status& status) {
  constexpr int kNoDriver = 35, kJitFailed = 218;
  switch (status.code()) {
    case Code::ok:
      return CUDA_SUCCESS;
    case Code::invalid_argument:
      return CUDA_ERROR_INVALID_VALUE;
    case Code::invalid_problem:  // sizes past what any kernel serves
    case Code::unsupported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case Code::compile_failed:
      return kJitFailed;
    case Code::no_wisdom:
    case Code::device_error:
      break;
  }
  if (!launch::driver()) return kNoDriver;
  const CUresult refusal = launch::refusal();
  return refusal == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : refusal;
}

}  // namespace

}  // namespace kda::api

extern "C" int kda_prefill_f32(const KdaPrefillIO* io, struct CUstream_st* stream) {
  using namespace kda;
  launch::forget_refusal();
  try {
    const Status status = api::prefill(io, stream);
    api::report(status);
    return api::error_of(status);
  } catch (...) {
    api::report(base::no_memory());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}
