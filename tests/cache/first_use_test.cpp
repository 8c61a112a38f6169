// First uses while the process forks, each in a process of its own.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "cache/cache.hpp"
#include "cache/shipped.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace {

constexpr const char* kApart = "a thread uses it for the first time during a fork";

struct Use {
  std::string_view name;
  void (*call)();
};

constexpr Use kUses[] = {{"linked bundles", [] { (void)kda::cache::linked_bundles(); }},
                         {"the cache", [] { (void)kda::cache::shared_cache(""); }}};

std::atomic<void (*)()> during_fork{nullptr};

void use_it() {
  void (*const use)() = during_fork.exchange(nullptr);
  if (use == nullptr) return;
  std::thread(use).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// What is registered before the library's own runs after it, when that has taken all mutexes.
[[gnu::constructor(101)]] void watch_forks() { ::pthread_atfork(use_it, nullptr, nullptr); }

}  // namespace

TEST_CASE("a thread uses it for the first time during a fork", "[.]") {
  const char* name = std::getenv("KDA_TEST_USE");
  REQUIRE(name != nullptr);
  for (const Use& use : kUses) {
    if (use.name != name) continue;
    during_fork = use.call;
    CHECK(kda::test::in_child([&] {
            use.call();
            return 0;
          }) == 0);
    CHECK(during_fork == nullptr);
    return;
  }
  FAIL(name);
}

// The bug: a child that was forked while another thread of its parent first asked for the linked
// bundles waited for ever, as the guard of a static variable stayed shut.
TEST_CASE("a child does not wait for what a thread of its parent had begun to make") {
  const kda::test::Scratch scratch;
  for (const Use& use : kUses) {
    const kda::test::Outcome outcome = kda::test::run_case_apart(
        kApart, {{"KDA_TEST_USE", std::string(use.name)}, {"KDA_CACHE_DIR", scratch / "c"}});
    INFO(use.name << "\n" << outcome.output);
    CHECK(outcome.code == 0);
  }
}
