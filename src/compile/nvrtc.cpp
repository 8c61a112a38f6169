#include "compile/nvrtc.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <chrono>

#include "base/env.hpp"
#include "base/text.hpp"
#include "compile/elf.hpp"
#include "compile/library.hpp"
#include "compile/toolchain.hpp"

namespace kda::compile {
namespace {

// Errors and assertions of generated sources then read the same everywhere.
constexpr const char* kSourceName = "kda.cu";

// NVRTC's own locks: in a child that was forked amid a compile of another thread nobody lets go of
// them.
std::atomic<int> compiling{0};
std::atomic<bool> left_locked{false};

[[maybe_unused]] const bool follows_forks = [] {
  return ::pthread_atfork(nullptr, nullptr, [] {
           if (compiling.exchange(0) > 0) left_locked = true;
         }) == 0;
}();

struct Compiling {
  Compiling() { ++compiling; }
  ~Compiling() { --compiling; }
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;
};

class Program {
 public:
  Program(const Nvrtc& nvrtc, const Job& job, std::span<const Header> headers) : nvrtc_(nvrtc) {
    std::vector<const char*> names;
    std::vector<const char*> texts;
    for (const Header& header : headers) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
    std::vector<const char*> flags;
    for (const std::string& option : job.options) flags.push_back(option.c_str());
    // From 12.9 on NVRTC keeps a cache of its own, whose hits bring no report.
    if (nvrtc.major > 12 || nvrtc.minor >= 9) flags.push_back("--no-cache");
    result_ = nvrtc.CreateProgram(&program_, job.source.c_str(), kSourceName,
                                  static_cast<int>(headers.size()), texts.data(), names.data());
    if (result_ == NVRTC_SUCCESS) {
      result_ = nvrtc.CompileProgram(program_, static_cast<int>(flags.size()), flags.data());
      log_ = text(nvrtc.GetProgramLogSize, nvrtc.GetProgramLog);
    }
  }
  ~Program() {
    if (program_ != nullptr) (void)nvrtc_.DestroyProgram(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcResult result() const { return result_; }
  const std::string& log() const { return log_; }
  std::string cubin() const { return bytes(nvrtc_.GetCUBINSize, nvrtc_.GetCUBIN); }
  std::string ptx() const { return text(nvrtc_.GetPTXSize, nvrtc_.GetPTX); }

 private:
  template <class Size, class Get>
  std::string bytes(Size size, Get get) const {
    std::size_t count = 0;
    if (size(program_, &count) != NVRTC_SUCCESS) return {};
    std::string value(count, '\0');
    if (count != 0 && get(program_, value.data()) != NVRTC_SUCCESS) value.clear();
    return value;
  }
  template <class Size, class Get>
  std::string text(Size size, Get get) const {
    std::string value = bytes(size, get);
    while (value.ends_with('\0')) value.pop_back();
    return value;
  }

  const Compiling compiling_;
  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
  nvrtcResult result_ = NVRTC_SUCCESS;
  std::string log_;
};

Status refused(const Nvrtc& nvrtc, const Job& job, const std::string& why, const std::string& log) {
  return {Code::compile_failed,
          fmt::format("NVRTC {}.{} ({}) on {} for {}: {}{}{}", nvrtc.major, nvrtc.minor, nvrtc.path,
                      job.entry, job.target, why, log.empty() ? "" : "\n", base::trim(log))};
}

std::string explain(const Nvrtc& nvrtc, nvrtcResult result) {
  std::string text = nvrtc.GetErrorString(result);
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    text += fmt::format(
        "; libnvrtc-builtins.so.{}.{} must lie beside libnvrtc or where the loader searches",
        nvrtc.major, nvrtc.minor);
  }
  return text;
}

// The library that toolchain() speaks of and no other, so that a cached kernel's key is true.
Result<const Nvrtc*> known_nvrtc() {
  if (left_locked) {
    return Status(Code::compile_failed,
                  "this process was forked while another thread compiled, and NVRTC may wait in it "
                  "for that thread for ever; compile before the fork, or exec after it (kernels in "
                  "the cache or in bundles serve)");
  }
  forget_replaced_toolchain();
  const Result<Toolchain> known = toolchain();
  if (!known) return known.status();
  Result<const Nvrtc*> nvrtc = open_nvrtc(known->path);
  if (nvrtc || !forget_noted_toolchain()) return nvrtc;
  const Result<Toolchain> found = toolchain();
  if (!found) return found.status();
  return open_nvrtc(found->path);
}

}  // namespace

Result<Build> compile(const Job& job, std::span<const Header> headers) {
  const Result<const Nvrtc*> nvrtc = known_nvrtc();
  if (!nvrtc) return nvrtc.status();
  const auto start = std::chrono::steady_clock::now();
  const Program program(**nvrtc, job, headers);
  if (program.result() != NVRTC_SUCCESS) {
    return refused(**nvrtc, job, explain(**nvrtc, program.result()), program.log());
  }
  Build build{.cubin = program.cubin(),
              .log = program.log(),
              .resources = parse_resources(program.log(), job.entry)};
  const std::string trouble = check_cubin(build.cubin, job.entry);
  if (!trouble.empty()) return refused(**nvrtc, job, trouble, build.log);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  build.resources.compile_milliseconds = took.count();
  return build;
}

Result<std::string> compile_to_ptx(const Job& job, std::span<const Header> headers) {
  const Result<const Nvrtc*> nvrtc = known_nvrtc();
  if (!nvrtc) return nvrtc.status();
  const Program program(**nvrtc, job, headers);
  if (program.result() != NVRTC_SUCCESS) {
    return refused(**nvrtc, job, explain(**nvrtc, program.result()), program.log());
  }
  std::string ptx = program.ptx();
  if (ptx.empty()) return refused(**nvrtc, job, "no PTX came of it", program.log());
  return ptx;
}

Result<std::string> identity() {
  const Result<Toolchain> known = toolchain();
  if (!known) return known.status();
  std::string text = fmt::format("nvrtc {}.{} {}", known->major, known->minor, known->build);
  // NVRTC adds these by itself, behind options()' back.
  const std::string appended = base::env::get("NVRTC_APPEND_FLAGS");
  if (!appended.empty()) text += " NVRTC_APPEND_FLAGS=" + base::quote(appended);
  return text;
}

Result<std::string> open_identity() {
  const Result<const Nvrtc*> nvrtc = known_nvrtc();
  if (!nvrtc) return nvrtc.status();
  return identity();
}

Result<std::string> library_path() {
  const Result<Toolchain> known = toolchain();
  if (!known) return known.status();
  return known->path;
}

}  // namespace kda::compile
