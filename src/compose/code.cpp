#include "compose/code.hpp"

#include <cstddef>

namespace kda::compose {

std::string code_of(std::string_view text) {
  std::string code;
  const auto end_line = [&code] {
    while (!code.empty() && (code.back() == ' ' || code.back() == '\t')) code.pop_back();
    if (!code.empty() && code.back() != '\n') code += '\n';
  };
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const std::string_view two = text.substr(at, 2);
    if (two == "//") {
      at = text.find('\n', at);
    } else if (two == "/*") {
      const std::size_t end = text.find("*/", at + 2);
      at = end == std::string_view::npos ? end : end + 2;
      code += ' ';
    } else if (c == '\n') {
      end_line();
      ++at;
    } else if (c == '"' || c == '\'') {
      std::size_t end = at + 1;
      while (end < text.size() && text[end] != c && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      end = end < text.size() && text[end] == c ? end + 1 : end;
      code += text.substr(at, end - at);
      at = end;
    } else {
      code += c;
      ++at;
    }
    if (at == std::string_view::npos) break;
  }
  end_line();
  return code;
}

}  // namespace kda::compose
