#include "cache/cache.hpp"

#include <fmt/format.h>

#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "cache/entry_file.hpp"
#include "cache/store.hpp"

namespace kda::cache {

namespace env = base::env;

using Shared = std::shared_ptr<const Entry>;

namespace {

std::string root_of(const std::string& directory) {
  return directory.empty() ? env::cache_root() : base::file::absolute(directory);
}

}  // namespace

const char* name_of(Origin origin) noexcept {
  switch (origin) {
    case Origin::memory:
      return "memory";
    case Origin::disk:
      return "disk";
    case Origin::built:
      return "built";
  }
  return "unknown";
}

struct Cache::Impl {
  explicit Impl(const std::string& directory) : store(root_of(directory), env::cache_mode()) {}

  // Throws nothing: others may be waiting for the answer.
  Result<Found> find_or_build(const Key& key, const std::function<Result<Entry>()>& build) try {
    if (std::optional<Entry> entry = store.find(key)) {
      return Found{std::make_shared<const Entry>(*std::move(entry)), Origin::disk};
    }
    Result<Entry> entry = build();
    if (!entry) return entry.status();
    const std::string trouble = check(key, *entry);
    if (!trouble.empty()) {
      return Status(Code::compile_failed, "the compiler's result is refused: " + trouble);
    }
    store.publish(key, *entry);
    return Found{std::make_shared<const Entry>(*std::move(entry)), Origin::built};
  } catch (const std::exception& error) {
    return Status(Code::compile_failed, fmt::format("the build threw: {}", error.what()));
  }

  Store store;
  std::mutex mutex;  // guards the rest; never held over a read or a build
  std::unordered_map<std::string, Shared> memory;
  std::unordered_map<std::string, std::shared_future<Result<Found>>> flights;
};

Cache::Cache(const std::string& directory) : impl_(std::make_unique<Impl>(directory)) {}
Cache::~Cache() = default;

const std::string& Cache::directory() const noexcept { return impl_->store.root(); }

Result<Found> Cache::get(const Key& key, const std::function<Result<Entry>()>& build) {
  std::promise<Result<Found>> promise;
  std::shared_future<Result<Found>> other;
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto hit = impl_->memory.find(key.text()); hit != impl_->memory.end()) {
      return Found{hit->second, Origin::memory};
    }
    const auto [flight, first] = impl_->flights.try_emplace(key.text());
    if (first) {
      flight->second = promise.get_future().share();
    } else {
      other = flight->second;
    }
  }
  if (other.valid()) {
    const Result<Found>& found = other.get();
    if (!found) return found.status();
    return Found{found->entry, Origin::memory};
  }

  Result<Found> found = impl_->find_or_build(key, build);
  {
    const std::lock_guard lock(impl_->mutex);
    if (found) impl_->memory.emplace(key.text(), found->entry);
    impl_->flights.erase(key.text());
  }
  promise.set_value(found);
  if (base::log::enabled(LogLevel::debug)) {
    base::log::debug(fmt::format("cache: {} {}", key.digest(),
                                 found ? name_of(found->origin) : name_of(found.status().code())));
  }
  return found;
}

std::shared_ptr<Cache> shared_cache(const std::string& directory) {
  // Leaked, as plans may be made during exit.  KDA_CACHE may change between two calls.
  static auto* mutex = new std::mutex;
  static auto* caches =
      new std::map<std::pair<std::string, env::CacheMode>, std::shared_ptr<Cache>>;
  const std::lock_guard lock(*mutex);
  std::shared_ptr<Cache>& cache = (*caches)[{root_of(directory), env::cache_mode()}];
  if (!cache) cache = std::make_shared<Cache>(directory);
  return cache;
}

}  // namespace kda::cache
