#include "cache/shipped.hpp"

#include <fmt/format.h>

#include <mutex>

#include "base/fork.hpp"
#include "base/lazy.hpp"

namespace kda::cache {
namespace {

struct Linked {
  base::ForkMutex mutex{base::ForkRank::shipped};
  std::vector<const void*> places;
  std::vector<std::shared_ptr<const Bundle>> bundles;
};

Linked& linked() {
  static constinit base::Lazy<Linked> of_process;  // filled before main, used during exit
  return of_process.get();
}

}  // namespace

Status add_linked_bundle(std::string_view bytes) {
  Linked& to = linked();
  const std::lock_guard lock(to.mutex);
  for (const void* place : to.places) {
    if (place == bytes.data()) return {};
  }
  Result<std::shared_ptr<const Bundle>> bundle =
      Bundle::open(fmt::format("linked {}", to.bundles.size() + 1), bytes);
  if (!bundle) return bundle.status();
  to.places.push_back(bytes.data());
  to.bundles.push_back(*std::move(bundle));
  return {};
}

std::vector<std::shared_ptr<const Bundle>> linked_bundles() {
  Linked& of = linked();
  const std::lock_guard lock(of.mutex);
  return of.bundles;
}

}  // namespace kda::cache
