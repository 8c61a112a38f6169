// A directory of the test's own, gone with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace kda::test {

class Scratch {
 public:
  Scratch() {
    path_ = (std::filesystem::temp_directory_path() / "kda_test_XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kda::test
