// What C calls say of a failure where there is no memory, and while the process ends.
#include "api/last_message.hpp"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "kda/kda.h"
#include "kda/kda.hpp"
#include "kda/prefill.h"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;
using kda::test::contains;
using kda::test::run_case_apart;

namespace {

thread_local bool refuses = false;  // whether this thread is given no memory

class WithoutMemory {
 public:
  WithoutMemory() { refuses = true; }
  ~WithoutMemory() { refuses = false; }
};

kda_code failing_call() { return kda_supports(nullptr, nullptr); }

void fail_at_exit() {
  const kda_code code = failing_call();
  std::printf("at exit: %d \"%s\"\n", static_cast<int>(code), kda_last_message());
}

}  // namespace

// All that are not aligned, or a sanitizer's own would meet these.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return refuses ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& all) noexcept {
  return operator new(bytes, all);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

// The bug: the text that says so was made where there was no memory for it, and std::terminate
// called; from kda_prefill_f32 an exception came.
TEST_CASE("where there is no memory a call fails and says so") {
  kda_code code = KDA_OK;
  int result = 0;
  {
    const WithoutMemory here;
    code = failing_call();
  }
  CHECK(code == KDA_DEVICE_ERROR);
  CHECK_THAT(kda_last_message(), contains("the host refused memory"));
  {
    const WithoutMemory here;
    result = kda_prefill_f32(nullptr, nullptr);
  }
  CHECK(result != 0);
  CHECK_THAT(kda_last_message(), contains("the host refused memory"));
}

// The same of the C++ API, from which a second exception came.
TEST_CASE("where there is no memory a C++ call fails, too") {
  const Problem problem;
  const Options options;
  Status status;
  {
    const WithoutMemory here;
    status = supports(problem, options);
  }
  CHECK(status.code() == Code::device_error);
  CHECK_THAT(status.message(), contains("the host refused memory"));
  {
    const WithoutMemory here;
    status = Plan::make(problem, options).status();
  }
  CHECK(status.code() == Code::device_error);
}

TEST_CASE("apart: a call fails and another one at exit", "[.]") {
  CHECK(failing_call() != KDA_OK);
  CHECK(std::string(kda_last_message()) != "");
  CHECK(std::atexit(fail_at_exit) == 0);
}

// The bug: the message was kept in a variable of the thread that no longer was there.
TEST_CASE("a call that fails while the process ends does so without a message") {
  const auto outcome = run_case_apart("apart: a call fails and another one at exit", {});
  CHECK_THAT(outcome.output, contains("at exit: 1 \"\""));
}
