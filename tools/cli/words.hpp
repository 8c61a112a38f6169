// Words of a command line, "chunk=16,32 shards=2": lists and ranges expanded, words taken out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kda/status.hpp"

namespace kda::cli {

// Every combination of the words' values, the last list running fastest:
// "chunk=16,32 shards=1,2" gives four texts.  Words named in `kept` keep their lists whole.  An
// item of a list may be a range, ends included: 16..64:16 steps by 16, 512..8192*2 doubles, 1..4
// steps by one; what lacks a number stays, for the reader of the value to refuse.  Fails with
// invalid_argument where a range has no values or the combinations are too many to be meant.
Result<std::vector<std::string>> expand(std::string_view text,
                                        const std::vector<std::string>& kept = {});

// Removes "name=value" from the text and gives the value; none when no word has that name.
std::optional<std::string> take(std::string& text, std::string_view name);

}  // namespace kda::cli
