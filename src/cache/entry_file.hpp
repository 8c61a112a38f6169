// An entry as one file:
//
//   "kdaobj1\n"                 what it is, and the version of this format
//   u64 header bytes            both little-endian
//   u64 cubin bytes
//   header                      fields: the key's whole text, entry, target, resources
//   cubin
//   32 hex digits               digest of everything before
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cache/cache.hpp"
#include "cache/key.hpp"

namespace kda::cache {

constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxCubinBytes = std::size_t{1} << 26;
constexpr std::size_t kMaxFileBytes = kMaxHeaderBytes + kMaxCubinBytes + 64;

std::string encode(const Key& key, const Entry& entry);

// What a file holds, whatever it was looked up for.
struct Stored {
  std::string key_text;
  Fields key;
  Entry entry;
  std::size_t cubin_bytes = 0;

  std::string digest() const;  // of the key: the file's name
};

// What is wrong with the file; empty when it is whole, and `stored` filled.
std::string decode(std::string_view file, Stored& stored);

// The same for the file as the key's entry.
std::string decode(std::string_view file, const Key& key, Entry& entry);

// What makes an entry unfit for the key, on disk or fresh from the compiler; empty when it fits.
std::string check(const Fields& key, const Entry& entry);

}  // namespace kda::cache
