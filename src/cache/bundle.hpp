// Many entries as one read-only file, for machines that have no compiler or no time for it:
//
//   "kdabun1\n"                what it is, and the version of this format
//   u64 entries                little-endian, as all numbers
//   an index row an entry:     32 hex digits: the key's portable digest; u64 offset; u64 bytes
//   32 hex digits              digest of everything before
//   entries                    each as its file in a cache (entry_file.hpp), with its own digest
//
// Rows are sorted by digest, so that equal contents make equal bundles.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/entry_file.hpp"
#include "kda/status.hpp"

namespace kda::cache {

constexpr std::size_t kMaxBundleBytes = std::size_t{1} << 31;

class Bundle {
 public:
  // `bytes` must outlive it.  Fails with invalid_argument, saying what is wrong, where this is no
  // bundle or its index is damaged; entries are checked when they are used.
  static Result<std::shared_ptr<const Bundle>> open(std::string name, std::string_view bytes);
  static Result<std::shared_ptr<const Bundle>> read(const std::string& path);

  const std::string& name() const noexcept { return name_; }
  std::size_t size() const noexcept { return rows_.size(); }
  std::size_t bytes() const noexcept { return bytes_.size(); }

  // The encoded entries; of a portable digest, or of a place in the index.
  std::vector<std::string_view> find(const std::string& portable_digest) const;
  std::string_view entry(std::size_t row) const;

 private:
  struct Row {
    std::string_view digest;
    std::uint64_t offset, bytes;
  };

  std::string name_;
  std::string_view bytes_;
  std::vector<Row> rows_;
};

// The bundle of these encoded entries; damaged ones are left out, equal keys kept once.
std::string encode_bundle(const std::vector<std::string>& entries);

}  // namespace kda::cache
