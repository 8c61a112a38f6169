#include "compile/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "compile/probe.hpp"

namespace kda::compile {
namespace {

namespace env = base::env;
namespace file = base::file;

constexpr const char* sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

bool exists(const std::string& path) {
  std::string ignored;
  return file::stamp(path, ignored) == 0;
}

void add_existing(std::vector<std::string>& paths, const std::string& directory) {
  for (const char* soname : sonames) {
    std::string path = file::join(directory, soname);
    if (exists(path)) paths.push_back(std::move(path));
  }
}

// Entries of `parent` that begin with `prefix`, the last (newest, as versions sort) first.
std::vector<std::string> newest_first(const std::string& parent, std::string_view prefix) {
  std::vector<std::string> names;
  std::vector<std::string> found;
  if (file::list(parent, names) != 0) return found;
  for (const std::string& name : names) {
    if (name.starts_with(prefix)) found.push_back(file::join(parent, name));
  }
  std::reverse(found.begin(), found.end());
  return found;
}

// What the user named, existing or not: a library, or a directory that holds one.
std::vector<std::string> named_paths(const std::string& named) {
  std::vector<std::string> paths;
  for (const char* inside : {"", "/lib64", "/lib"}) add_existing(paths, named + inside);
  if (paths.empty()) paths.push_back(named);
  return paths;
}

std::vector<std::string> toolkit_paths() {
  std::vector<std::string> paths;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = env::get(variable);
    if (root.empty()) continue;
    for (const char* inside : {"/lib64", "/lib"}) add_existing(paths, root + inside);
  }
  return paths;
}

// Where toolkits and Python's packages put it when nobody told the loader.
std::vector<std::string> usual_paths() {
  std::vector<std::string> paths;
  add_existing(paths, "/usr/local/cuda/lib64");
  for (const std::string& root : newest_first("/usr/local", "cuda-")) {
    add_existing(paths, root + "/lib64");
  }
  const std::string conda = env::get("CONDA_PREFIX");
  if (!conda.empty()) add_existing(paths, conda + "/lib");
  const std::string venv = env::get("VIRTUAL_ENV");
  for (const std::string& lib :
       {venv.empty() ? std::string() : venv + "/lib", std::string("/usr/local/lib")}) {
    for (const std::string& python : newest_first(lib, "python3")) {
      for (const char* packages : {"/site-packages", "/dist-packages"}) {
        for (const char* package : {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"}) {
          add_existing(paths, python + packages + package);
        }
      }
    }
  }
  return paths;
}

std::string path_of(void* handle) {
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

// The one the program brought along (a framework's, say), by the loader's name for it.
std::string loaded_path() {
  for (const char* soname : sonames) {
    if (void* handle = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      std::string path = path_of(handle);
      ::dlclose(handle);
      return path;
    }
  }
  return {};
}

template <class Function>
bool resolve(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

// Why this one cannot serve; empty when it can.
std::string fill(void* handle, Nvrtc& nvrtc) {
  const char* missing = nullptr;
#define KDA_RESOLVE(Name) \
  if (!resolve(handle, "nvrtc" #Name, nvrtc.Name)) missing = "nvrtc" #Name
  KDA_RESOLVE(Version);
  KDA_RESOLVE(GetErrorString);
  KDA_RESOLVE(CreateProgram);
  KDA_RESOLVE(DestroyProgram);
  KDA_RESOLVE(CompileProgram);
  KDA_RESOLVE(GetProgramLogSize);
  KDA_RESOLVE(GetProgramLog);
  KDA_RESOLVE(GetCUBINSize);
  KDA_RESOLVE(GetCUBIN);
  KDA_RESOLVE(GetPTXSize);
  KDA_RESOLVE(GetPTX);
#undef KDA_RESOLVE
  if (missing != nullptr) return fmt::format("lacks {}", missing);
  if (nvrtc.Version(&nvrtc.major, &nvrtc.minor) != NVRTC_SUCCESS) return "tells no version";
  if (nvrtc.major < kOldestMajor || (nvrtc.major == kOldestMajor && nvrtc.minor < kOldestMinor)) {
    return fmt::format("is NVRTC {}.{}, older than {}.{}", nvrtc.major, nvrtc.minor, kOldestMajor,
                       kOldestMinor);
  }
  return {};
}

// NVRTC opens its builtins by bare name at the first compile, which fails where the loader does not
// search the toolkit; a copy that is already open under that name is used instead.
void open_builtins(const Nvrtc& nvrtc) {
  const std::size_t slash = nvrtc.path.find_last_of('/');
  if (slash == std::string::npos) return;
  const std::string path = fmt::format("{}/libnvrtc-builtins.so.{}.{}", nvrtc.path.substr(0, slash),
                                       nvrtc.major, nvrtc.minor);
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    base::log::debug(fmt::format("{} did not open: {}", path, ::dlerror()));
  }
}

class Search {
 public:
  std::unique_ptr<Nvrtc> open(const std::string& name) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* said = ::dlerror();
      std::string_view why = said != nullptr ? said : "did not open";
      if (why.starts_with(name + ": ")) why.remove_prefix(name.size() + 2);
      note(name, why);
      return nullptr;
    }
    auto nvrtc = std::make_unique<Nvrtc>();
    const std::string trouble = fill(handle, *nvrtc);
    if (!trouble.empty()) {
      note(name, trouble);
      ::dlclose(handle);
      return nullptr;
    }
    nvrtc->path = path_of(handle);
    open_builtins(*nvrtc);
    base::log::info(fmt::format("NVRTC {}.{} from {}", nvrtc->major, nvrtc->minor, nvrtc->path));
    return nvrtc;
  }

  // The first that compiles.  One that does not stays open: threads of its own may run.
  std::unique_ptr<Nvrtc> open_first(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      auto nvrtc = open(name);
      if (!nvrtc) continue;
      nvrtc->build = probe(*nvrtc);
      if (!nvrtc->build.empty()) return nvrtc;
      constexpr const char* why =
          "does not compile an empty program, or does not sign what it compiles";
      base::log::info(fmt::format("{} {}; looking on", nvrtc->path, why));
      note(name, why);
    }
    return nullptr;
  }

  Status failure() const {
    const char* const remedy =
        env::get("KDA_NVRTC_PATH").empty()
            ? "Install the CUDA toolkit, or set KDA_NVRTC_PATH to libnvrtc or its directory"
            : "KDA_NVRTC_PATH names that, and no other is tried; unset it, or have it name "
              "libnvrtc "
              "or its directory";
    return {Code::compile_failed,
            fmt::format("no usable NVRTC; tried:\n{}{} (NVRTC {}.{} or newer)", tried_, remedy,
                        kOldestMajor, kOldestMinor)};
  }

 private:
  void note(const std::string& name, std::string_view why) {
    tried_ += fmt::format("  {}: {}\n", name, why);
  }

  std::string tried_;
};

std::unique_ptr<Nvrtc> search(Search& search) {
  const std::string named = env::get("KDA_NVRTC_PATH");
  if (!named.empty()) return search.open_first(named_paths(named));
  std::vector<std::string> names = toolkit_paths();
  if (std::string loaded = loaded_path(); !loaded.empty()) names.insert(names.begin(), loaded);
  names.insert(names.end(), std::begin(sonames), std::end(sonames));
  if (auto nvrtc = search.open_first(names)) return nvrtc;
  return search.open_first(usual_paths());
}

struct Open {
  base::ForkMutex mutex{base::ForkRank::nvrtc};
  std::unique_ptr<const Nvrtc> nvrtc;
};

Open& of_process() {
  static constinit base::Lazy<Open> open;
  return open.get();
}

}  // namespace

Result<const Nvrtc*> open_nvrtc(const std::string& expected) {
  Open& of = of_process();
  const std::lock_guard lock(of.mutex);
  if (of.nvrtc == nullptr) {
    Search attempt;
    of.nvrtc = expected.empty() ? search(attempt) : attempt.open(expected);
    if (of.nvrtc == nullptr) return attempt.failure();
  }
  return of.nvrtc.get();
}

bool nvrtc_is_open() {
  Open& of = of_process();
  const std::lock_guard lock(of.mutex);
  return of.nvrtc != nullptr;
}

std::string search_inputs() {
  std::string text;
  for (const char* variable : {"KDA_NVRTC_PATH", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH",
                               "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    text += fmt::format("{}={}\n", variable, env::get(variable));
  }
  text += fmt::format("loaded={}\n", loaded_path());
  const std::string named = env::get("KDA_NVRTC_PATH");
  for (const std::string& path : named.empty() ? toolkit_paths() : named_paths(named)) {
    text += fmt::format("candidate={}\n", path);
  }
  std::string loader_cache;
  if (file::stamp("/etc/ld.so.cache", loader_cache) == 0) text += loader_cache;
  return text;
}

}  // namespace kda::compile
