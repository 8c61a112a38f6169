#include "launch/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "base/env.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"

namespace kda::launch {
namespace {

struct State {
  std::atomic<const Driver*> ready{nullptr};  // initialised: the only word the hot path reads
  std::atomic<bool> inherited{false};         // a forked child of a process that used CUDA
  std::atomic<unsigned> generation{0};

  base::ForkMutex mutex{base::ForkRank::driver};  // guards the rest
  Driver table;
  std::optional<Status> failure;
  FindSymbol replacement = nullptr;
  bool watches_forks = false;
};

State& state() {
  static constinit base::Lazy<State> state;
  return state.get();
}

// CUDA's state does not survive fork(); calls into it from the child hang or corrupt.
void forget_in_child() {
  if (state().ready.exchange(nullptr) != nullptr) state().inherited = true;
}

struct Symbol {
  const char* name;
  bool required;
  void* place;  // of a function pointer, which is copied as bytes
};

#define KDA_TEXT_OF(name) #name
#define KDA_TEXT(name) KDA_TEXT_OF(name)  // expands cuda.h's macro first: "cuMemAlloc_v2"

// The first required call that is missing; null when there is none.
template <class Find>
const char* fill(Driver& table, Find find) {
  const Symbol symbols[] = {
#define KDA_REQUIRED(Name) {KDA_TEXT(cu##Name), true, &table.Name},
#define KDA_OPTIONAL(Name) {KDA_TEXT(cu##Name), false, &table.Name},
      KDA_DRIVER_CALLS(KDA_REQUIRED, KDA_OPTIONAL)
#undef KDA_REQUIRED
#undef KDA_OPTIONAL
  };
  const char* missing = nullptr;
  for (const Symbol& symbol : symbols) {
    void* found = find(symbol.name);
    // Headers of CUDA 13 name a newer twin, of the same signature, that drivers before 12.8 lack.
    if (found == nullptr && std::strcmp(symbol.name, "cuEventElapsedTime_v2") == 0) {
      found = find("cuEventElapsedTime");
    }
    if (found == nullptr && symbol.required) missing = symbol.name;
    std::memcpy(symbol.place, &found, sizeof found);
  }
  return missing;
}

std::string meaning(const Driver& table, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (table.GetErrorName == nullptr || table.GetErrorString == nullptr ||
      table.GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUresult {}", static_cast<int>(result));
  }
  if (table.GetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

// What the caller can do about it, where that is known.
const char* hint(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return "; no CUDA context is current in this thread: call cudaSetDevice or cuCtxSetCurrent "
             "first, or pass a stream of the plan's device";
    case CUDA_ERROR_NO_DEVICE:
      return "; no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return "; the kernel was compiled for another device than the stream's";
    case CUDA_ERROR_DEINITIALIZED:
      return "; the process is exiting";
    default:
      return "";
  }
}

thread_local CUresult last_refusal = CUDA_SUCCESS;

Status failed(std::string message) { return {Code::device_error, std::move(message)}; }

Status open_library(void*& handle) {
  const std::string named = base::env::get("KDA_LIBCUDA_PATH");
  const std::string path = named.empty() ? "libcuda.so.1" : named;
  handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return {};
  const char* why = ::dlerror();
  return failed(
      fmt::format("no CUDA driver: {}; install NVIDIA's driver, run where a GPU is, or set "
                  "KDA_LIBCUDA_PATH; to compile without a GPU, name a device in Options::target",
                  why != nullptr ? why : path));
}

Status open(State& to) {
  Driver& table = to.table;
  const char* missing = nullptr;
  if (to.replacement != nullptr) {
    missing = fill(table, to.replacement);
  } else {
    void* handle = nullptr;  // never closed
    if (Status opened = open_library(handle); !opened) return opened;
    missing = fill(table, [&](const char* name) { return ::dlsym(handle, name); });
  }
  if (missing != nullptr) {
    return failed(
        fmt::format("the CUDA driver lacks {}; kda needs a driver for CUDA 12.0 or newer "
                    "(525.60.13)",
                    missing));
  }
  if (Status status = check(table.Init(0), "cuInit"); !status) return status;
  return check(table.DriverGetVersion(&table.version), "cuDriverGetVersion");
}

Result<const Driver*> open_once() {
  State& to = state();
  if (to.inherited) {
    return failed(
        "this process was forked from one that had used CUDA, which does not survive fork(): "
        "start workers before the first use, or with exec (Python: the spawn method)");
  }
  const std::lock_guard lock(to.mutex);
  if (const Driver* table = to.ready.load()) return table;
  if (!to.failure) {
    if (!to.watches_forks) {
      to.watches_forks = ::pthread_atfork(nullptr, nullptr, forget_in_child) == 0;
    }
    to.failure = open(to);
    if (to.failure->ok()) {
      to.failure.reset();
      to.ready = &to.table;
      base::log::info(fmt::format("CUDA driver for {}.{}", to.table.version / 1000,
                                  to.table.version % 1000 / 10));
      return &to.table;
    }
    base::log::info(to.failure->message());
  }
  return *to.failure;
}

}  // namespace

Result<const Driver*> driver() {
  if (const Driver* table = state().ready.load(std::memory_order_acquire)) return table;
  return open_once();
}

CUresult refusal() noexcept { return last_refusal; }
void forget_refusal() noexcept { last_refusal = CUDA_SUCCESS; }
bool refused_code() noexcept {
  switch (last_refusal) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return true;
    default:
      return false;
  }
}

Status check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return {};
  last_refusal = result;
  return failed(fmt::format("{}: {}{}", what, meaning(state().table, result), hint(result)));
}

void replace_driver_for_tests(FindSymbol find) {
  State& to = state();
  const std::lock_guard lock(to.mutex);
  to.ready = nullptr;
  to.failure.reset();
  to.table = {};
  to.replacement = find;
  ++to.generation;
}

unsigned driver_generation() noexcept { return state().generation; }

}  // namespace kda::launch
