// Every template by itself: a kernel with its default shape and tuning, a header included alone.
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "compile/nvrtc.hpp"
#include "compose/embedded.hpp"
#include "support/catch.hpp"

namespace {

using namespace kda;

std::vector<compile::Header> headers() {
  std::vector<compile::Header> list;
  for (const auto& file : compose::embedded_files()) list.push_back({file.path, file.text});
  return list;
}

// The targets that a folder's kernels serve; headers are tried where every instruction exists.
std::vector<std::string> targets_of(std::string_view path) {
  if (path.starts_with("sm80/")) return {"sm_80", "sm_89", "sm_90a"};
  return {"sm_90a"};
}

std::string entry_of(std::string_view text) {
  static const std::regex kernel(R"re(extern\s+"C"\s+__global__[^{;]*?\b(kda_\w+)\s*\()re");
  std::match_results<std::string_view::const_iterator> match;
  return std::regex_search(text.begin(), text.end(), match, kernel) ? match[1].str()
                                                                    : std::string();
}

std::string warnings_of(const std::string& log) {
  static const std::regex warning(R"(.*\bwarning\b.*)", std::regex::icase);
  std::smatch match;
  return std::regex_search(log, match, warning) ? match[0].str() : std::string();
}

void compile_alone(const std::string& source, const std::string& entry, const std::string& target) {
  const auto table = headers();
  const auto built = compile::compile({source, entry, target, compile::options(target)}, table);
  INFO(target << ": " << built.status().message());
  REQUIRE(built);
  CHECK(warnings_of(built->log) == "");
}

}  // namespace

TEST_CASE("every kernel compiles with no prelude for every target of its folder", "[templates]") {
  int kernels = 0;
  for (const auto& file : compose::embedded_files()) {
    const std::string path = file.path;
    if (!path.ends_with(".cu")) continue;
    INFO(path);
    const std::string entry = entry_of(file.text);
    REQUIRE(entry != "");  // extern "C" __global__ ... kda_name(
    for (const std::string& target : targets_of(path)) {
      compile_alone("#include \"" + path + "\"\n", entry, target);
    }
    ++kernels;
  }
  CHECK(kernels > 0);
}

TEST_CASE("every template header compiles when it is the only include", "[templates]") {
  for (const auto& file : compose::embedded_files()) {
    const std::string path = file.path;
    if (path.ends_with(".cu")) continue;
    INFO(path);
    compile_alone("#include \"" + path + "\"\n#include \"" + path + "\"\n" +
                      "extern \"C\" __global__ void alone() {}\n",
                  "alone", targets_of(path).back());
  }
}

TEST_CASE("a template that leans on another's includes is refused", "[templates]") {
  const compile::Header needy = {"needy.cuh", "inline __device__ Undeclared x();\n"};
  const auto built =
      compile::compile({"#include \"needy.cuh\"\nextern \"C\" __global__ void a() {}\n", "a",
                        "sm_90a", compile::options("sm_90a")},
                       {&needy, 1});
  CHECK_FALSE(built);
  CHECK(built.status().code() == Code::compile_failed);
}
