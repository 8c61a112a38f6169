#include "worker/process.hpp"

#include <chrono>
#include <string>

#include "support/catch.hpp"

using namespace kda;

// A deadline was taken to have passed up to a millisecond before it had: a candidate that hung to
// the end of a search was recorded as a timeout of its own, and the search as complete.
TEST_CASE("a process is heard until the deadline and not less", "[tools]") {
  auto process = worker::Process::start({"/bin/sh", "-c", "exec sleep 60"});
  INFO(process.status().message());
  REQUIRE(process);
  for (int i = 0; i < 20; ++i) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::microseconds(2000 + 97 * i);
    std::string line;
    CHECK(process->hear(line, deadline) == worker::Process::Heard::too_late);
    CHECK(std::chrono::steady_clock::now() >= deadline);
  }
  process->end();
}
