// What a test borrows from the machine and gives back: a directory, an environment variable, a
// process.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kda::test {

// An empty directory, removed with all it holds.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A variable's value for a scope; null unsets it.
class Environment {
 public:
  Environment(const char* name, const char* value);
  Environment(const char* name, const std::string& value) : Environment(name, value.c_str()) {}
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_;
  bool was_set_;
  std::string before_;
};

struct Outcome {
  int code;            // exit code; 128 + n when signal n ended it
  std::string output;  // stdout and stderr
};

// Runs this test program again for one hidden case ("[.]"), with these variables: what is decided
// once a process (which NVRTC, which libcuda) can then be decided afresh.
Outcome run_case_apart(const std::string& name,
                       const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace kda::test
