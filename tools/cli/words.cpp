#include "cli/words.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace kda::cli {

std::vector<std::string> expand(std::string_view text, const std::vector<std::string>& kept) {
  std::vector<std::string> texts{""};
  for (const std::string_view word : base::words(text)) {
    const std::size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    std::vector<std::string> choices{std::string(word)};
    if (equals != std::string_view::npos &&
        std::find(kept.begin(), kept.end(), name) == kept.end()) {
      choices.clear();
      for (const std::string_view value : base::split(word.substr(equals + 1), ',')) {
        choices.push_back(name + "=" + std::string(value));
      }
    }
    std::vector<std::string> longer;
    for (const std::string& start : texts) {
      for (const std::string& choice : choices) {
        longer.push_back(start.empty() ? choice : start + " " + choice);
      }
    }
    texts = std::move(longer);
  }
  return texts;
}

std::optional<std::string> take(std::string& text, std::string_view name) {
  const std::string start = std::string(name) + "=";
  std::optional<std::string> value;
  std::vector<std::string> rest;
  for (const std::string_view word : base::words(text)) {
    if (!value && word.starts_with(start)) {
      value = std::string(word.substr(start.size()));
    } else {
      rest.emplace_back(word);
    }
  }
  if (value) text = base::join(rest, " ");
  return value;
}

}  // namespace kda::cli
