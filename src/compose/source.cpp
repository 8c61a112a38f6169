#include "compose/source.hpp"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "compose/embedded.hpp"

namespace kda::compose {

namespace {

// The paths of a text's #include "..." lines.
std::vector<std::string_view> includes_of(std::string_view text) {
  constexpr std::string_view kInclude = "include";
  std::vector<std::string_view> paths;
  for (const std::string_view line : base::split(text, '\n')) {
    std::string_view rest = base::trim(line);
    if (rest.empty() || rest.front() != '#') continue;
    rest = base::trim(rest.substr(1));
    if (rest.substr(0, kInclude.size()) != kInclude) continue;
    rest = base::trim(rest.substr(kInclude.size()));
    if (rest.empty() || rest.front() != '"') continue;
    rest.remove_prefix(1);
    if (const std::size_t end = rest.find('"'); end != std::string_view::npos) {
      paths.push_back(rest.substr(0, end));
    }
  }
  return paths;
}

}  // namespace

Result<Source> source_of(const Stage& stage, const device::Family& family) {
  std::string tried;
  for (const std::string_view folder : {family.folder, family.fallback}) {
    std::string path = fmt::format("{}/{}", folder, stage.file);
    if (path == tried) continue;  // a family may be its own fallback
    if (find_embedded(path) != nullptr) {
      std::string text = fmt::format("{}#include \"{}\"\n", stage.prelude, path);
      return Source{std::move(path), std::move(text)};
    }
    if (!tried.empty()) tried += ", ";
    tried += path;
  }
  return Status(Code::unsupported, fmt::format("stage {}: {} has no template for it; looked for {}",
                                               stage.name, family.target, tried));
}

std::vector<std::string_view> templates_of(std::string_view path) {
  std::set<std::string_view> reached;
  std::vector<std::string_view> waiting{path};
  while (!waiting.empty()) {
    const std::string_view next = waiting.back();
    waiting.pop_back();
    if (!reached.insert(next).second) continue;
    if (const EmbeddedFile* file = find_embedded(next); file != nullptr) {
      for (const std::string_view include : includes_of(file->text)) waiting.push_back(include);
    }
  }
  return {reached.begin(), reached.end()};
}

std::string templates_digest(std::string_view path) {
  // Sorted, so that the order of includes does not matter; the texts hold that order anyway.
  std::string all;
  for (const std::string_view name : templates_of(path)) {
    const EmbeddedFile* file = find_embedded(name);
    const std::string_view text = file == nullptr ? "(missing)" : file->text;
    all += fmt::format("{} {}\n{}\n{}\n", name.size(), text.size(), name, text);
  }
  return base::digest(all);
}

}  // namespace kda::compose
