#include "tune/disassembler.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/env.hpp"

namespace kda::tune_tool {
namespace {

std::string in_quotes(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

struct Finished {
  int code;
  std::string output;
};

Finished shell(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, {}};
  std::string output;
  std::array<char, 4096> part;
  for (std::size_t got; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    output.append(part.data(), got);
  }
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

// The command that disassembles a file named after it; empty when none is installed.
std::string find_command() {
  std::vector<std::string> folders{""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = base::env::get(variable);
    if (!home.empty()) folders.push_back(home + "/bin/");
  }
  folders.emplace_back("/usr/local/cuda/bin/");
  for (const char* tool : {"nvdisasm", "cuobjdump -sass"}) {
    const std::string words = tool;
    const std::string name = words.substr(0, words.find(' '));
    for (const std::string& folder : folders) {
      if (shell("command -v " + in_quotes(folder + name) + " 2>/dev/null").code != 0) continue;
      return in_quotes(folder + name) + words.substr(name.size());
    }
  }
  return {};
}

}  // namespace

Result<std::string> disassemble(const std::string& cubin) {
  const std::string command = find_command();
  if (command.empty()) {
    return Status(Code::unsupported,
                  "neither nvdisasm nor cuobjdump was found in $PATH, CUDA_HOME, CUDA_PATH or "
                  "/usr/local/cuda; the packages cuda-nvdisasm and cuda-cuobjdump hold them");
  }
  std::string path = "/tmp/kda-tune.XXXXXX";
  const int file = ::mkstemp(path.data());
  if (file < 0) return Status(Code::unsupported, "cannot write to /tmp");
  const bool written =
      ::write(file, cubin.data(), cubin.size()) == static_cast<ssize_t>(cubin.size());
  ::close(file);
  const Finished finished = shell(command + " " + in_quotes(path) + " 2>&1");
  ::unlink(path.c_str());
  if (!written) return Status(Code::unsupported, "cannot write to /tmp");
  if (finished.code != 0) {
    return Status(Code::unsupported,
                  fmt::format("{} ended with {}: {}", command, finished.code, finished.output));
  }
  return finished.output;
}

}  // namespace kda::tune_tool
