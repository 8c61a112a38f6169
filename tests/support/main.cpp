// The main of every test program: Catch2's, with the [gpu] cases apart.
//   kda_test_x            the host cases
//   kda_test_x --gpu      the cases tagged [gpu]; where there is no device, says so and returns 77
//   kda_test_x <spec...>  what Catch2's own arguments say
// A run that matched no case returns 77 as well, which ctest shows as skipped.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "support/gpu.hpp"

namespace {

constexpr int kSkipped = 77;  // tests/CMakeLists.txt: SKIP_RETURN_CODE
std::size_t cases_run = 0;

struct CountCases : Listener {
  using Listener::Listener;
  void testCaseStarting(const Catch::TestCaseInfo&) override { ++cases_run; }
};
CATCH_REGISTER_LISTENER(CountCases)

}  // namespace

// NVRTC's own threads, whose code ThreadSanitizer has not instrumented, are not ours to mend.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:libnvrtc\ncalled_from_lib:libnvrtc.so\n";
}

int main(int argc, char** argv) {
  // What was measured on this machine decides no test; those of wisdom say otherwise themselves.
  ::setenv("KDA_TUNE", "off", 0);
  std::vector<char*> arguments(argv, argv + argc);
  std::string spec = "~[gpu]~[.]";  // [.]: run apart, by other cases (support/scratch.hpp)
  if (argc == 2 && std::strcmp(argv[1], "--gpu") == 0) {
    if (const std::string reason = kda::test::why_no_gpu(); !reason.empty()) {
      std::printf("skipped the GPU cases: %s\n", reason.c_str());
      return kSkipped;
    }
    spec = "[gpu]";
    arguments.pop_back();
  }
  if (arguments.size() == 1) arguments.push_back(spec.data());

  Catch::Session session;
  if (const int bad =
          session.applyCommandLine(static_cast<int>(arguments.size()), arguments.data()))
    return bad;
#if __has_include(<catch2/catch_session.hpp>)
  session.configData().allowZeroTests = true;
#endif
  const int failed = session.run();
  if (failed == 0 && cases_run == 0) {
    std::printf("skipped: no case matches %s\n", arguments.back());
    return kSkipped;
  }
  return failed == 0 ? 0 : 1;
}
