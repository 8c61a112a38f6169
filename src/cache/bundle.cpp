#include "cache/bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "cache/bytes.hpp"

namespace kda::cache {
namespace {

constexpr std::string_view kBundleMagic = "kdabun1\n";
constexpr std::size_t kBundlePrefix = 8 + 8;
constexpr std::size_t kRowBytes = base::kDigestBytes + 8 + 8;

Status refused(const std::string& name, const std::string& why) {
  return {Code::invalid_argument, fmt::format("bundle {}: {}", name, why)};
}

}  // namespace

Result<std::shared_ptr<const Bundle>> Bundle::open(std::string name, std::string_view bytes) {
  if (!bytes.starts_with(kBundleMagic)) return refused(name, "it is no bundle of this version");
  if (bytes.size() < kBundlePrefix + base::kDigestBytes) return refused(name, "it is cut short");
  const std::uint64_t count = number_at(bytes, kBundleMagic.size());
  if (count > (bytes.size() - kBundlePrefix - base::kDigestBytes) / kRowBytes) {
    return refused(name, "its index is longer than itself");
  }
  const std::size_t index_end = kBundlePrefix + count * kRowBytes;
  if (base::digest(bytes.substr(0, index_end)) != bytes.substr(index_end, base::kDigestBytes)) {
    return refused(name, "its index is damaged");
  }
  auto bundle = std::make_shared<Bundle>();
  bundle->name_ = std::move(name);
  bundle->bytes_ = bytes;
  bundle->rows_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = kBundlePrefix + i * kRowBytes;
    const Row row{bytes.substr(at, base::kDigestBytes), number_at(bytes, at + base::kDigestBytes),
                  number_at(bytes, at + base::kDigestBytes + 8)};
    if (row.offset > bytes.size() || row.bytes > bytes.size() - row.offset) {
      return refused(bundle->name_, fmt::format("entry {} lies past its end: it is cut short", i));
    }
    bundle->rows_.push_back(row);
  }
  return std::shared_ptr<const Bundle>(std::move(bundle));
}

Result<std::shared_ptr<const Bundle>> Bundle::read(const std::string& path) {
  auto owned = std::make_unique<std::string>();
  // Who names a bundle means what a link there leads to.
  std::error_code unknown;
  const std::filesystem::path real = std::filesystem::canonical(path, unknown);
  const std::string named = unknown ? path : real.string();
  if (const int error = base::file::read(named, kMaxBundleBytes, *owned)) {
    return refused(path, base::file::describe(error));
  }
  const Result<std::shared_ptr<const Bundle>> opened = open(path, *owned);
  if (!opened) return opened.status();
  // The bytes move in with their bundle; its views are of the heap block, which stays.
  struct Together {
    std::unique_ptr<std::string> bytes;
    std::shared_ptr<const Bundle> bundle;
  };
  auto both = std::make_shared<Together>(Together{std::move(owned), *opened});
  return std::shared_ptr<const Bundle>(both, both->bundle.get());
}

std::vector<std::string_view> Bundle::find(const std::string& portable_digest) const {
  std::vector<std::string_view> found;
  const auto first = std::lower_bound(
      rows_.begin(), rows_.end(), portable_digest,
      [](const Row& row, const std::string& wanted) { return row.digest < wanted; });
  for (auto row = first; row != rows_.end() && row->digest == portable_digest; ++row) {
    found.push_back(bytes_.substr(row->offset, row->bytes));
  }
  return found;
}

std::string_view Bundle::entry(std::size_t row) const {
  return bytes_.substr(rows_[row].offset, rows_[row].bytes);
}

std::string encode_bundle(const std::vector<std::string>& entries) {
  struct Whole {
    std::string digest, key;
    const std::string* file;
  };
  std::vector<Whole> rows;
  for (const std::string& file : entries) {
    Stored stored;
    if (decode(file, stored).empty()) {
      rows.push_back({portable_digest(stored.key), stored.key_text, &file});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Whole& a, const Whole& b) {
    return std::pair(a.digest, a.key) < std::pair(b.digest, b.key);
  });
  rows.erase(std::unique(rows.begin(), rows.end(),
                         [](const Whole& a, const Whole& b) { return a.key == b.key; }),
             rows.end());

  std::string bundle(kBundleMagic);
  append_number(bundle, rows.size());
  std::uint64_t offset = kBundlePrefix + rows.size() * kRowBytes + base::kDigestBytes;
  for (const Whole& row : rows) {
    bundle += row.digest;
    append_number(bundle, offset);
    append_number(bundle, row.file->size());
    offset += row.file->size();
  }
  bundle += base::digest(bundle);
  for (const Whole& row : rows) bundle += *row.file;
  return bundle;
}

}  // namespace kda::cache
