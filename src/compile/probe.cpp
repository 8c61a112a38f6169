#include "compile/probe.hpp"

#include <cstddef>

#include "base/text.hpp"

namespace kda::compile {

std::string probe(const Nvrtc& nvrtc) {
  nvrtcProgram program = nullptr;
  if (nvrtc.CreateProgram(&program, "", "empty.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS) {
    return {};
  }
  std::string ptx;
  std::size_t bytes = 0;
  if (nvrtc.CompileProgram(program, 0, nullptr) == NVRTC_SUCCESS &&
      nvrtc.GetPTXSize(program, &bytes) == NVRTC_SUCCESS) {
    ptx.resize(bytes);
    if (nvrtc.GetPTX(program, ptx.data()) != NVRTC_SUCCESS) ptx.clear();
  }
  (void)nvrtc.DestroyProgram(&program);
  return parse_build(ptx);
}

std::string parse_build(std::string_view ptx) {
  std::string build;
  std::string release;
  for (const std::string_view line : base::split(ptx, '\n')) {
    if (!line.starts_with("//")) {
      if (!base::trim(line).empty()) break;
      continue;
    }
    std::string_view before;
    for (const std::string_view word : base::words(line)) {
      if (before == "ID:") build = word;
      if (word.size() > 1 && word[0] == 'V' && word[1] >= '0' && word[1] <= '9') release = word;
      before = word;
    }
  }
  if (build.empty() || release.empty()) return {};
  return build + " " + release;
}

}  // namespace kda::compile
