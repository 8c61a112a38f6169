// Every #include of the library and the templates against src/layers.txt.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

namespace fs = std::filesystem;

struct Layer {
  std::set<std::string> folders;  // "kda", "base", ...
  std::set<std::string> others;   // "fmt", "posix", ...
};
using Layers = std::map<std::string, Layer>;  // by path: "src/base"

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Layers parse(std::istream& text) {
  Layers layers;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string folder;
    std::string word;
    words >> folder >> word;
    if (word != ":") throw std::runtime_error("layers.txt: expected `folder : ...` in: " + line);
    Layer& layer = layers[folder];
    layer.folders.insert(last_part(folder));
    for (bool others = false; words >> word;) {
      if (word == "|") {
        others = true;
      } else {
        (others ? layer.others : layer.folders).insert(word);
      }
    }
  }
  return layers;
}

// "fmt" of <fmt/format.h>, "" of <vector>, "posix" of <unistd.h>.
std::string owner_of(const std::string& header) {
  static const std::set<std::string> named = {"fmt",    "spdlog", "nlohmann",
                                              "xxhash", "cuda",   "nvrtc"};
  if (header == "stddef.h" || header == "stdint.h") return "";  // std of C, for kda.h
  std::string stem = header.substr(0, header.find_first_of("./"));
  if (named.contains(stem)) return stem;
  return header.find('.') == std::string::npos ? "" : "posix";
}

// What an include line asks for in the words of layers.txt; "" of std.
std::string asked_for(const std::string& header, bool angled) {
  return angled ? owner_of(header) : header.substr(0, header.find('/'));
}

// What is wrong with one include line, in words; empty when nothing is.
std::string fault(const std::string& folder, const Layer& layer, const std::string& header,
                  bool angled) {
  const bool in_templates = folder.starts_with("templates/");
  if (angled) {
    if (in_templates) return "templates include nothing but templates";
    const std::string owner = owner_of(header);
    if (owner.empty() || layer.others.contains(owner)) return {};
    return folder + " -> " + owner + " is not in src/layers.txt";
  }
  const std::string target = header.substr(0, header.find('/'));
  if (target == header) return "includes name the folder: \"folder/file\"";
  if (!layer.folders.contains(target)) {
    return folder + " -> " + target + " is not in src/layers.txt";
  }
  const fs::path root = KDA_SOURCE_DIR;
  const std::array places = {root / "templates" / header, root / "src" / header,
                             root / "include" / header};
  const auto end = in_templates ? places.begin() + 1 : places.end();
  if (std::any_of(places.begin(), end, [](const fs::path& p) { return fs::exists(p); })) return {};
  return "there is no such file";
}

std::vector<std::string> faults_of(const std::string& folder, const Layer& layer,
                                   const std::string& name, std::istream& text,
                                   std::set<std::string>* used = nullptr) {
  static const std::regex include(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<std::string> faults;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string what = fault(folder, layer, match[2], match[1] == "<");
    if (used != nullptr) used->insert(asked_for(match[2], match[1] == "<"));
    if (!what.empty()) {
      faults.push_back(name + ":" + std::to_string(number) + ": " + match[2].str() + ": " + what);
    }
  }
  return faults;
}

// Edges of layers.txt that no include of the folder needs.
std::vector<std::string> unused(const std::string& folder, const Layer& layer,
                                const std::set<std::string>& used) {
  std::vector<std::string> found;
  for (const std::set<std::string>& side : {layer.folders, layer.others}) {
    for (const std::string& edge : side) {
      if (edge != last_part(folder) && !used.contains(edge)) found.push_back(edge);
    }
  }
  return found;
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kinds = {".h", ".hpp", ".cpp", ".cuh", ".cu"};
  return kinds.contains(path.extension().string());
}

Layers layers_of_the_tree() {
  std::ifstream text(fs::path(KDA_SOURCE_DIR) / "src/layers.txt");
  REQUIRE(text);
  return parse(text);
}

}  // namespace

// The bug: layers.txt granted twelve edges that nothing used, plan -> abi and reference -> problem
// among them.
TEST_CASE("every include is an edge of src/layers.txt, and every edge an include", "[layers]") {
  const Layers layers = layers_of_the_tree();
  std::map<std::string, std::set<std::string>> used;
  int files = 0;
  for (const char* top : {"include", "src", "templates"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(KDA_SOURCE_DIR) / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const fs::path path = fs::relative(entry.path(), KDA_SOURCE_DIR);
      auto part = path.begin();
      const std::string folder = (*part / *std::next(part)).generic_string();
      INFO(path);
      REQUIRE(layers.contains(folder));
      std::ifstream text(entry.path());
      for (const std::string& what :
           faults_of(folder, layers.at(folder), path.string(), text, &used[folder])) {
        FAIL_CHECK(what);
      }
      ++files;
    }
  }
  CHECK(files > 50);
  for (const auto& [folder, layer] : layers) {
    for (const std::string& edge : unused(folder, layer, used[folder])) {
      FAIL_CHECK("src/layers.txt: no file of " << folder << " includes what is " << edge << "'s");
    }
  }
}

// The bug: two files leant on fmt/format.h for fmt::join, which fmt 11 has in fmt/ranges.h alone.
TEST_CASE("who joins includes fmt/ranges.h", "[layers]") {
  for (const char* top : {"src", "tools", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(KDA_SOURCE_DIR) / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      if (text.find("fmt::join(") == std::string::npos) continue;
      INFO(entry.path());
      CHECK(text.find("#include <fmt/ranges.h>") != std::string::npos);
    }
  }
}

TEST_CASE("the layers have no cycle", "[layers]") {
  // A library folder's edges point only at folders on earlier lines.
  std::ifstream text(fs::path(KDA_SOURCE_DIR) / "src/layers.txt");
  REQUIRE(text);
  std::set<std::string> known = {"abi"};
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream one(line);
    const Layers layer = parse(one);
    const std::string own = last_part(layer.begin()->first);
    if (layer.begin()->first.starts_with("templates/abi")) known = {};
    for (const std::string& folder : layer.begin()->second.folders) {
      INFO(line);
      CHECK((folder == own || known.contains(folder)));
    }
    known.insert(own);
  }
}

TEST_CASE("a forbidden include is found and named", "[layers]") {
  const Layers layers = layers_of_the_tree();
  const auto faults = [&](const std::string& folder, const std::string& line) {
    std::istringstream text(line);
    return faults_of(folder, layers.at(folder), "x", text);
  };
  CHECK(faults("src/compile", "#include <vector>").empty());
  CHECK(faults("src/compile", "#include <nvrtc.h>").empty());
  CHECK(faults("src/compile", "#include \"base/text.hpp\"").empty());
  CHECK(faults("src/compile", "#include \"problem/problem.hpp\"").size() == 1);
  CHECK(faults("src/strategy", "#include <cuda.h>").size() == 1);
  CHECK(faults("src/problem", "#include <spdlog/spdlog.h>").size() == 1);
  CHECK(faults("src/base", "#include \"base/no_such_file.hpp\"").size() == 1);
  CHECK(faults("templates/ptx", "#include \"abi/dtype.h\"").empty());
  CHECK(faults("templates/ptx", "  #  include <cuda_bf16.h>").size() == 1);
  CHECK(faults("templates/ptx", "#include \"tile/shared.cuh\"").size() == 1);
  CHECK(faults("templates/abi", "#include \"kda/kda.hpp\"").size() == 1);
}

TEST_CASE("an edge that nothing includes is found", "[layers]") {
  std::istringstream law("src/compile : kda base | fmt posix\n");
  const Layers layers = parse(law);
  const auto idle = [&](const char* lines) {
    std::istringstream text(lines);
    std::set<std::string> used;
    const Layer& layer = layers.at("src/compile");
    REQUIRE(faults_of("src/compile", layer, "x", text, &used).empty());
    return unused("src/compile", layer, used);
  };
  using Edges = std::vector<std::string>;
  CHECK(idle("#include \"base/text.hpp\"\n#include <fmt/format.h>\n") == Edges{"kda", "posix"});
  CHECK(idle("#include <vector>\n#include \"compile/elf.hpp\"\n#include \"kda/status.hpp\"\n"
             "#include \"base/env.hpp\"\n#include <fmt/ranges.h>\n#include <dlfcn.h>\n")
            .empty());
}
