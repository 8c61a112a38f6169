#include "cache/cache.hpp"

#include <fmt/format.h>

#include <deque>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/no_memory.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "cache/bundle.hpp"
#include "cache/entry_file.hpp"
#include "cache/shipped.hpp"
#include "cache/store.hpp"

namespace kda::cache {

namespace env = base::env;
namespace file = base::file;

using Shared = std::shared_ptr<const Entry>;
using Flight = std::shared_future<Result<Found>>;

namespace {

std::string root_of(const std::string& directory) {
  return directory.empty() ? env::cache_root() : file::absolute(directory);
}

// What KDA_CACHE_PATH names.
struct MoreRoots {
  std::deque<Store> stores;
  std::vector<std::shared_ptr<const Bundle>> bundles;
  std::vector<std::string> troubles;

  MoreRoots(const std::string& path, bool off) {
    if (off) {
      if (!path.empty()) troubles.emplace_back("KDA_CACHE=off: KDA_CACHE_PATH is not read");
      return;
    }
    for (const std::string_view word : base::split(path, ':')) {
      if (!base::trim(word).empty()) add(file::absolute(std::string(base::trim(word))));
    }
  }

  void add(const std::string& root) {
    file::Info info;
    const int error = file::info(root, info);
    if (error == 0 && info.directory) {
      stores.emplace_back(Store::Declared{}, root);
      return;
    }
    Result<std::shared_ptr<const Bundle>> bundle = Bundle::read(root);
    if (bundle) {
      bundles.push_back(*std::move(bundle));
    } else {
      troubles.push_back("KDA_CACHE_PATH: " + bundle.status().message());
      base::log::warn("cache: " + troubles.back());
    }
  }
};

// Empty where the key names no compiler.
std::string maker_of(const Fields& fields) {
  const std::string* const maker = value_of(fields, kCompilerField);
  return maker != nullptr ? *maker : std::string();
}

Status threw(const std::exception& error) noexcept try {
  return Status(Code::compile_failed, fmt::format("the build threw: {}", error.what()));
} catch (...) {  // there is no memory, not even to say so
  return base::no_memory();
}

}  // namespace

const char* name_of(Origin origin) noexcept {
  switch (origin) {
    case Origin::memory:
      return "memory";
    case Origin::disk:
      return "disk";
    case Origin::bundle:
      return "bundle";
    case Origin::built:
      return "built";
  }
  return "unknown";
}

struct Cache::Impl {
  Impl(const std::string& directory, env::CacheMode wanted)
      : mode(wanted),
        store(root_of(directory), wanted),
        more(env::get("KDA_CACHE_PATH"), wanted == env::CacheMode::off) {}

  std::vector<std::shared_ptr<const Bundle>> bundles() const {
    std::vector<std::shared_ptr<const Bundle>> all = more.bundles;
    for (auto& bundle : linked_bundles()) all.push_back(std::move(bundle));
    return all;
  }

  // On disk or in a bundle, by the whole key.
  std::optional<Found> find(const Key& key) {
    std::optional<Entry> entry = store.find(key);
    for (Store& other : more.stores) {
      if (!entry) entry = other.find(key);
    }
    if (entry) return Found{std::make_shared<const Entry>(*std::move(entry)), Origin::disk};
    std::optional<Stored> shipped;
    each_shipped(key, [&](Stored& stored) {
      if (stored.key_text == key.text()) shipped = std::move(stored);
      return !shipped;
    });
    if (!shipped) return std::nullopt;
    return Found{std::make_shared<const Entry>(std::move(shipped->entry)), Origin::bundle};
  }

  // Hands `take` the entries of bundles that are the key's but for the compiler, until it says no.
  template <class Take>
  void each_shipped(const Key& key, Take take) {
    const auto all = bundles();
    if (all.empty()) return;
    const std::string digest = portable_digest(key.fields());
    for (const auto& bundle : all) {
      for (const std::string_view contents : bundle->find(digest)) {
        Stored stored;
        const std::string trouble = decode(contents, stored);
        if (!trouble.empty()) {
          warn_once(fmt::format("cache: entry {} of bundle {} is damaged ({})", digest,
                                bundle->name(), trouble));
        } else if (portable_digest(stored.key) == digest && !take(stored)) {
          return;
        }
      }
    }
  }

  // A kernel is looked for more than once, and every pause while another process builds it.
  void warn_once(const std::string& text) {
    {
      const std::lock_guard lock(mutex);
      if (!told.insert(text).second) return;
    }
    base::log::warn(text);
  }

  // Throws nothing: others may be waiting for the answer.
  Result<Found> find_or_build(const Key& key, const std::function<Result<Entry>()>& build) try {
    std::optional<Found> found = find(key);
    if (found) return *std::move(found);
    // Another process may be at it; once it is not, look again.
    const BuildLocks::Held lock = store.lock(key, [&] {
      found = find(key);
      return found.has_value();
    });
    if (!found && lock) found = find(key);
    if (found) return *std::move(found);

    Result<Entry> entry = build();
    if (!entry) return entry.status();
    const std::string trouble = check(key.fields(), *entry);
    if (!trouble.empty()) {
      return Status(Code::compile_failed, "the compiler's result is refused: " + trouble);
    }
    store.publish(key, *entry);
    return Found{std::make_shared<const Entry>(*std::move(entry)), Origin::built};
  } catch (const std::exception& error) {
    return threw(error);
  }

  // Where there is no memory the next call looks again.
  void remember(const Key& key, const Found& found) noexcept try {
    memory.emplace(key.text(), found.entry);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }

  // Those of a parent process's threads end there and not here.
  void drop_inherited_flights() {
    if (forks == base::forks()) return;
    forks = base::forks();
    flights.clear();
  }

  const env::CacheMode mode;
  Store store;
  MoreRoots more;
  base::ForkMutex mutex{base::ForkRank::cache};  // guards the rest; never held over a read or build
  std::unordered_map<std::string, Shared> memory;
  std::unordered_map<std::string, Shared> shipped;  // by portable digest
  std::unordered_map<std::string, Flight> flights;
  std::set<std::string> told;
  unsigned forks = base::forks();
};

Cache::Cache(const std::string& directory, env::CacheMode mode)
    : impl_(std::make_unique<Impl>(directory, mode)) {}
Cache::~Cache() = default;

const std::string& Cache::directory() const noexcept { return impl_->store.root(); }
env::CacheMode Cache::mode() const noexcept { return impl_->mode; }

std::vector<std::string> Cache::more_directories() const {
  std::vector<std::string> roots;
  for (const Store& store : impl_->more.stores) roots.push_back(store.root());
  return roots;
}

std::vector<std::shared_ptr<const Bundle>> Cache::bundles() const { return impl_->bundles(); }

std::vector<std::string> Cache::troubles() const {
  std::vector<std::string> all = impl_->more.troubles;
  const auto ask = [&](const Store& store) {
    const std::string trouble = store.trouble();
    if (!trouble.empty()) all.push_back(trouble);
  };
  ask(impl_->store);
  for (const Store& store : impl_->more.stores) ask(store);
  return all;
}

std::optional<Found> Cache::find(const Key& key) {
  {
    const std::lock_guard lock(impl_->mutex);
    const auto hit = impl_->memory.find(key.text());
    if (hit != impl_->memory.end()) return Found{hit->second, Origin::memory};
  }
  std::optional<Found> found = find_shipped(key, [&] { return maker_of(key.fields()); });
  return found ? found : impl_->find(key);
}

std::optional<Found> Cache::find_shipped(const Key& key,
                                         const std::function<std::string()>& compiler) {
  if (impl_->bundles().empty() || env::flag("KDA_STRICT_TOOLCHAIN", false) ||
      !env::get("NVRTC_APPEND_FLAGS").empty()) {
    return std::nullopt;
  }
  const std::string digest = portable_digest(key.fields());
  {
    const std::lock_guard lock(impl_->mutex);
    const auto hit = impl_->shipped.find(digest);
    if (hit != impl_->shipped.end()) return Found{hit->second, Origin::memory};
  }
  std::map<std::string, Stored> by_maker;
  std::string first;
  impl_->each_shipped(key, [&](Stored& stored) {
    const std::string maker = maker_of(stored.key);
    if (maker.find("NVRTC_APPEND_FLAGS") != std::string::npos) return true;
    if (by_maker.empty()) first = maker;
    by_maker.try_emplace(maker, std::move(stored));
    return true;
  });
  if (by_maker.empty()) return std::nullopt;
  auto taken = by_maker.find(first);
  if (by_maker.size() > 1 && compiler) {
    const auto own = by_maker.find(compiler());
    if (own != by_maker.end()) taken = own;
  }
  const auto entry = std::make_shared<const Entry>(std::move(taken->second.entry));
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->shipped.emplace(digest, entry);
  }
  return Found{entry, Origin::bundle};
}

Result<Found> Cache::get(const Key& key, const std::function<Result<Entry>()>& build) {
  std::promise<Result<Found>> promise;
  Flight other;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->drop_inherited_flights();
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
    if (found) impl_->remember(key, *found);
    impl_->flights.erase(key.text());
  }
  promise.set_value(found);
  if (base::log::enabled(LogLevel::debug)) {
    base::log::debug(fmt::format("cache: {} {}", key.digest(),
                                 found ? name_of(found->origin) : name_of(found.status().code())));
  }
  return found;
}

namespace {

// All on which it depends what a cache reads and keeps: the environment may change between two
// calls, and a directory may be trusted since.
using Words = std::tuple<std::string, env::CacheMode, std::string, std::string>;

struct Caches {
  base::ForkMutex mutex{base::ForkRank::caches};
  std::map<Words, std::shared_ptr<Cache>> by_words;
};

}  // namespace

std::shared_ptr<Cache> shared_cache(const std::string& directory, env::CacheMode mode) {
  static constinit base::Lazy<Caches> of_process;
  Caches& caches = of_process.get();
  const std::string root = root_of(directory);
  const Words words{root, mode, env::get("KDA_CACHE_PATH"), base::distrust(root)};
  {
    const std::lock_guard lock(caches.mutex);
    const auto known = caches.by_words.find(words);
    if (known != caches.by_words.end()) return known->second;
  }
  // Made outside the lock: a cache enrols its own mutexes for forks, and a fork, holding that list,
  // takes this one.  Of two threads the first one's stays.
  auto fresh = std::make_shared<Cache>(directory, mode);
  const std::lock_guard lock(caches.mutex);
  return caches.by_words.try_emplace(words, fresh).first->second;
}

}  // namespace kda::cache
