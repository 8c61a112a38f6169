#include "cache/entry_file.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "cache/bytes.hpp"
#include "cache/fields.hpp"

namespace kda::cache {
namespace {

constexpr std::string_view kEntryMagic = "kdaobj1\n";
constexpr std::size_t kEntryPrefix = 8 + 8 + 8;

// One row a number of Resources.
struct Number {
  const char* name;
  int compile::Resources::*place;
  bool newer = false;  // files of before have none: 0
};
constexpr Number numbers[] = {
    {"registers", &compile::Resources::registers},
    {"spill_bytes", &compile::Resources::spill_bytes},
    {"stack_bytes", &compile::Resources::stack_bytes},
    {"static_shared_bytes", &compile::Resources::static_shared_bytes},
    {"serialized_wgmma", &compile::Resources::serialized_wgmma, true},
};

std::string encode_header(const Key& key, const Entry& entry) {
  std::string header;
  append_field(header, "key", key.text());
  append_field(header, "entry", entry.entry);
  append_field(header, "target", entry.target);
  for (const Number& row : numbers) {
    append_field(header, row.name, std::to_string(entry.resources.*row.place));
  }
  append_field(header, "compile_milliseconds",
               fmt::format("{:.3f}", entry.resources.compile_milliseconds));
  return header;
}

std::string decode_header(std::string_view header, Stored& stored) {
  const std::optional<Fields> fields = parse_fields(header);
  if (!fields) return "its header does not parse";
  const std::string* key_text = value_of(*fields, "key");
  const std::string* symbol = value_of(*fields, "entry");
  const std::string* target = value_of(*fields, "target");
  const std::string* milliseconds = value_of(*fields, "compile_milliseconds");
  if (!key_text || !symbol || !target || !milliseconds) return "its header lacks a field";
  std::optional<Fields> key = parse_fields(*key_text);
  if (!key) return "its key does not parse";
  stored.key_text = *key_text;
  stored.key = *std::move(key);
  Entry& entry = stored.entry;
  entry.entry = *symbol;
  entry.target = *target;
  for (const Number& row : numbers) {
    const std::string* text = value_of(*fields, row.name);
    if (text == nullptr && row.newer) continue;
    const std::optional<std::int64_t> number =
        text != nullptr ? base::parse_integer(*text) : std::nullopt;
    if (!number) return fmt::format("its header lacks {}", row.name);
    entry.resources.*row.place = static_cast<int>(*number);
  }
  entry.resources.compile_milliseconds = base::parse_number(*milliseconds).value_or(0);
  return {};
}

}  // namespace

std::string encode(const Key& key, const Entry& entry) {
  const std::string header = encode_header(key, entry);
  std::string file(kEntryMagic);
  append_number(file, header.size());
  append_number(file, entry.cubin.size());
  file += header;
  file += entry.cubin;
  file += base::digest(file);
  return file;
}

std::string Stored::digest() const { return base::digest(key_text); }

std::string decode(std::string_view file, Stored& stored) {
  if (file.size() < kEntryPrefix + base::kDigestBytes) {
    return fmt::format("it is {} bytes short", kEntryPrefix + base::kDigestBytes - file.size());
  }
  if (!file.starts_with(kEntryMagic)) return "it is no entry of this version";
  const std::uint64_t header_bytes = number_at(file, 8);
  const std::uint64_t cubin_bytes = number_at(file, 16);
  if (header_bytes > kMaxHeaderBytes || cubin_bytes > kMaxCubinBytes ||
      file.size() != kEntryPrefix + header_bytes + cubin_bytes + base::kDigestBytes) {
    return "its size is not what it says";
  }
  const std::string_view covered = file.substr(0, file.size() - base::kDigestBytes);
  if (base::digest(covered) != file.substr(covered.size())) return "its digest does not match";
  stored.entry.cubin = covered.substr(kEntryPrefix + header_bytes);
  stored.cubin_bytes = stored.entry.cubin.size();
  std::string trouble = decode_header(covered.substr(kEntryPrefix, header_bytes), stored);
  return trouble.empty() ? check(stored.key, stored.entry) : trouble;
}

std::string decode(std::string_view file, const Key& key, Entry& entry) {
  Stored stored;
  std::string trouble = decode(file, stored);
  if (!trouble.empty()) return trouble;
  if (stored.key_text != key.text()) return "it belongs to another key";
  entry = std::move(stored.entry);
  return {};
}

std::string check(const Fields& key, const Entry& entry) {
  if (entry.cubin.empty()) return "its cubin is empty";
  const std::string* target = value_of(key, "target");
  if (target != nullptr && *target != entry.target) {
    return fmt::format("it is for {}, not {}", base::quote(entry.target), *target);
  }
  return {};
}

}  // namespace kda::cache
