// Words of a command line, "chunk=16,32 shards=2": lists expanded, words taken out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kda::cli {

// Every combination of the words' values, the last list running fastest:
// "chunk=16,32 shards=1,2" gives four texts.  Words named in `kept` keep their lists whole.
std::vector<std::string> expand(std::string_view text, const std::vector<std::string>& kept = {});

// Removes "name=value" from the text and gives the value; none when no word has that name.
std::optional<std::string> take(std::string& text, std::string_view name);

}  // namespace kda::cli
