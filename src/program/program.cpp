#include "program/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>

#include "base/env.hpp"
#include "compile/toolchain.hpp"

namespace kda::program {

namespace {

// A stage on its way: found or compiled, not yet loaded.
struct Ready {
  std::string path;
  cache::Found found;
  bool shipped = false;  // found in a bundle, whoever compiled it
  std::string prelude;
  std::vector<std::string> spilt;  // preludes before it
};

Status too_much_shared(const compose::Recipe& recipe, const compose::Stage& stage,
                       std::size_t static_bytes, const device::Device& device) {
  return Status(Code::unsupported,
                fmt::format("{} with {}: stage {} needs {} bytes of shared memory a block ({} "
                            "static + {} dynamic); {} gives {}",
                            recipe.strategy, tunable::to_text(recipe.tuning), stage.name,
                            static_bytes + stage.shared_bytes, static_bytes, stage.shared_bytes,
                            device.name, device.shared_per_block));
}

bool may_compile() { return base::env::flag("KDA_JIT", true); }

bool names_another_compiler(const cache::Key& key, const std::string& compiler) {
  const std::string* const named = cache::value_of(key.fields(), cache::kCompilerField);
  return named != nullptr && *named != compiler;
}

// Under KDA_JIT=off: a bundle is the remedy, or what keeps the one there from being read.
Status not_compiled(const Unit& unit, const cache::Cache& cache) {
  std::string why = fmt::format(
      "KDA_JIT=off, and no cache or bundle holds {} for {} (key {}); kda-tune bundle create "
      "makes one for the devices that --arch names, and explain says in what kernels at hand "
      "differ from this one (both take the problem as describe() words it)",
      unit.job.entry, unit.job.target, unit.key.digest());
  for (const std::string& trouble : cache.troubles()) why += "; " + trouble;
  if (base::env::flag("KDA_STRICT_TOOLCHAIN", false) && !cache.bundles().empty()) {
    why += "; KDA_STRICT_TOOLCHAIN=1 passes by what another NVRTC made for a bundle";
  }
  if (!base::env::get("NVRTC_APPEND_FLAGS").empty() && !cache.bundles().empty()) {
    why += "; NVRTC_APPEND_FLAGS passes by what was made for a bundle by other flags";
  }
  return {Code::compile_failed, std::move(why)};
}

// A bundle's kernel wants no compiler, not even to know which it would be, unless several have made
// it.
std::optional<cache::Found> find_shipped(const Unit& unit, cache::Cache& cache) {
  return cache.find_shipped(unit.key, [] {
    const Result<std::string> compiler = compile::identity();
    return compiler ? *compiler : std::string();
  });
}

Result<cache::Found> find_or_compile(Unit& unit, cache::Cache& cache) {
  const cache::Key portable = unit.key;
  for (bool again = false;; again = true) {
    if (Status status = add_compiler(unit); !status) {
      if (may_compile()) return status;
      // A toolkit is its remedy, and a bundle the one for who never compiles.
      return Status(status.code(),
                    fmt::format("{}; directories keep kernels by the NVRTC that made "
                                "them, so they were not searched: {}",
                                not_compiled(unit, cache).message(), status.message()));
    }
    Result<cache::Found> found = cache.get(unit.key, [&] { return compile_unit(unit, cache); });
    if (found || again) return found;
    // Where NVRTC's files were replaced, which nobody knew before it was opened, it is another now.
    const Result<std::string> now = compile::identity();
    if (!now || !names_another_compiler(unit.key, *now)) return found;
    unit.key = portable;
  }
}

Result<Ready> make_ready(const compose::Recipe& recipe, const compose::Stage& stage,
                         const device::Device& device, cache::Cache& cache,
                         bool from_bundles = true) {
  if (stage.shared_bytes > device.shared_per_block)
    return too_much_shared(recipe, stage, 0, device);
  std::vector<std::string> spilt;
  std::optional<compose::Stage> other;
  for (const compose::Stage* now = &stage;;) {
    Result<Unit> unit = portable_unit_of(*now, device);
    if (!unit) return unit.status();
    const std::optional<cache::Found> shipped =
        from_bundles ? find_shipped(*unit, cache) : std::nullopt;
    const Result<cache::Found> found = shipped ? *shipped : find_or_compile(*unit, cache);
    if (!found) return found.status();
    const auto fixed = static_cast<std::size_t>(found->entry->resources.static_shared_bytes);
    if (fixed + stage.shared_bytes > device.shared_per_block) {
      return too_much_shared(recipe, stage, fixed, device);
    }
    std::optional<compose::Stage> next;
    if (found->entry->resources.spill_bytes > 0) {
      next = roomier(stage, static_cast<int>(spilt.size()) + 1);
    }
    if (!next) {
      return Ready{std::move(unit->path), *found, shipped.has_value(), now->prelude,
                   std::move(spilt)};
    }
    spilt.push_back(now->prelude);
    other = std::move(next);
    now = &*other;
  }
}

// work(0), ..., work(count - 1), which throw nothing, each once, on at most `threads` threads, this
// one among them.
void in_parallel(std::size_t count, unsigned threads,
                 const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto drain = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> helpers;  // joined however this ends
  helpers.reserve(std::min<std::size_t>(threads, count));
  while (helpers.size() + 1 < std::min<std::size_t>(threads, count)) {
    try {
      helpers.emplace_back(drain);
    } catch (const std::exception&) {
      break;  // no more threads or memory to be had; those there are do the work
    }
  }
  drain();
}

Result<launch::Module> load_module(const compose::Stage& stage, const Ready& from,
                                   const device::Device& device) {
  return launch::Module::load(from.found.entry->cubin, stage.entry, device.ordinal,
                              stage.shared_bytes, stage.cluster);
}

// A bundle's kernel that this driver does not take, as it may be of a newer toolkit, is compiled
// here.
Result<launch::Module> load_or_compile(const compose::Recipe& recipe, const compose::Stage& stage,
                                       Ready& from, const device::Device& device,
                                       cache::Cache& cache) {
  Result<launch::Module> module = load_module(stage, from, device);
  if (module || !from.shipped || !may_compile() || !launch::refused_code()) return module;
  Result<Ready> own = make_ready(recipe, stage, device, cache, /*from_bundles=*/false);
  if (!own) {
    return Status(module.status().code(),
                  fmt::format("{}, of a bundle's kernel; compiling it here: {}",
                              module.status().message(), own.status().message()));
  }
  from = *std::move(own);
  return load_module(stage, from, device);
}

Result<Program> load(compose::Recipe recipe, std::span<std::optional<Result<Ready>>> ready,
                     const device::Device& device, cache::Cache& cache) {
  for (const auto& stage : ready) {
    if (!*stage) return stage->status();
  }
  Program program;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    Ready& from = **ready[i];
    Kernel kernel;
    if (device.present()) {
      Result<launch::Module> module =
          load_or_compile(recipe, recipe.stages[i], from, device, cache);
      if (!module) return module.status();
      kernel.module = *std::move(module);
    }
    kernel.stage = std::move(recipe.stages[i]);
    kernel.stage.prelude = std::move(from.prelude);
    kernel.spilt = std::move(from.spilt);
    kernel.path = std::move(from.path);
    kernel.resources = from.found.entry->resources;
    kernel.origin = from.found.origin;
    program.kernels.push_back(std::move(kernel));
  }
  recipe.stages.clear();
  program.recipe = std::move(recipe);
  return program;
}

}  // namespace

std::optional<compose::Stage> roomier(const compose::Stage& stage, int spilt) {
  std::string prelude = stage.roomier ? stage.roomier(spilt) : std::string();
  if (prelude.empty()) return std::nullopt;
  std::optional<compose::Stage> other(stage);
  other->prelude = std::move(prelude);
  return other;
}

unsigned default_threads() {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<unsigned>(base::env::integer("KDA_JIT_THREADS", cores));
}

Result<cache::Entry> compile_unit(const Unit& unit, const cache::Cache& cache) {
  if (!may_compile()) return not_compiled(unit, cache);
  const Result<std::string> compiler = compile::open_identity();
  if (!compiler) return compiler.status();
  if (names_another_compiler(unit.key, *compiler)) {
    return Status(Code::compile_failed,
                  fmt::format("NVRTC was replaced while this process ran: it is {} now, which the "
                              "key of {} does not say",
                              *compiler, unit.job.entry));
  }
  Result<compile::Build> built = compile::compile(unit.job, headers());
  if (!built) return built.status();
  return cache::Entry{unit.job.entry, unit.job.target, std::move(built->cubin), built->resources};
}

std::vector<Result<Program>> build_all(std::vector<compose::Recipe> recipes,
                                       const device::Device& device, cache::Cache& cache,
                                       unsigned threads) {
  struct Work {
    const compose::Recipe* recipe;
    const compose::Stage* stage;
  };
  std::vector<Work> queue;
  for (const compose::Recipe& recipe : recipes) {
    for (const compose::Stage& stage : recipe.stages) queue.push_back({&recipe, &stage});
  }

  // Beside the kernels: a start that finds all of them there need not open NVRTC.
  compile::keep_toolchain_note_in(cache.directory(), cache.mode());
  if (threads == 0) threads = default_threads();
  std::vector<std::optional<Result<Ready>>> ready(queue.size());
  const Status no_memory(Code::compile_failed, "out of memory");  // copied where none is left
  in_parallel(queue.size(), threads, [&](std::size_t i) {
    try {
      ready[i] = make_ready(*queue[i].recipe, *queue[i].stage, device, cache);
    } catch (const std::bad_alloc&) {  // must not end a thread
      ready[i] = no_memory;
    } catch (const std::exception& error) {
      ready[i] = Status(Code::compile_failed,
                        fmt::format("stage {}: {}", queue[i].stage->name, error.what()));
    }
  });

  // Loading is quick and wants the caller's CUDA context, so it happens here.
  std::vector<Result<Program>> programs;
  programs.reserve(recipes.size());
  std::span rest(ready);
  for (compose::Recipe& recipe : recipes) {
    const std::size_t stages = recipe.stages.size();
    programs.push_back(load(std::move(recipe), rest.first(stages), device, cache));
    rest = rest.subspan(stages);
  }
  return programs;
}

Result<Program> build(compose::Recipe recipe, const device::Device& device, cache::Cache& cache,
                      unsigned threads) {
  std::vector<compose::Recipe> recipes;
  recipes.push_back(std::move(recipe));
  return std::move(build_all(std::move(recipes), device, cache, threads).front());
}

}  // namespace kda::program
