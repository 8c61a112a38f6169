// The only getenv, and the one table of what this library reads from the environment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kda::base::env {

// What a value has to look like.
struct Form {
  enum class Kind { text, flag, word, number, bytes } kind = Kind::text;
  std::span<const std::string_view> words = {};  // of a word
  std::int64_t low = 0, high = 0;                // of a number
};

struct Variable {
  const char* name;
  const char* meaning;
  const char* fallback;  // what holds when it is unset, in words
  Form form = {};
};

// TABLE: every variable read, in the order that the README and kda-tune doctor print them.
std::span<const Variable> table();

// The value; empty when unset, and in set-user-id programs.  name is in table().
std::string get(const char* name);

// All that this library reads, as one text: a change of any of it changes the text.
std::string snapshot();

// The table's words for it.
std::span<const std::string_view> words_of(const char* name);

// The position of the value among the table's words; the fallback when it is unset, or is none of
// them, which is reported once.
std::size_t choice(const char* name, std::size_t fallback);

// The value as a number within the table's limits; else as choice().
std::int64_t integer(const char* name, std::int64_t fallback);

// 1/0, on/off, true/false, yes/no; else as choice().
bool flag(const char* name, bool fallback);

// The value as bytes, "500M" or "2G" or a plain number; else as choice().
std::int64_t bytes(const char* name, std::int64_t fallback);

// What is wrong with the environment, read by now or not, a sentence each: for kda-tune doctor.
std::vector<std::string> complaints();

// Names that are set, begin as ours do and are none that the library or its Python package reads,
// misspelt perhaps: likewise.
std::vector<std::string> unknown_names();

// Where this library keeps files: $KDA_CACHE_DIR, else $XDG_CACHE_HOME/kda, else ~/.cache/kda, else
// empty: nowhere.
std::string cache_root();

// KDA_CACHE.
enum class CacheMode { off, read_only, read_write };
CacheMode cache_mode();

}  // namespace kda::base::env
