// One directory of wisdom, read lazily: a single record by its name, or all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tune/wisdom.hpp"

namespace kda::tune {

// A record with what lookups compare, computed once.
struct Known {
  std::shared_ptr<const Record> record;
  std::string key, family;
  Source source;
  std::string path;  // empty: shipped, or not on disk
};
Known known(Record record, Source source, std::string path);

// "<root>/v1/<environment>/<key>.json".
std::string path_of(const std::string& root, const std::string& environment,
                    const std::string& key);

// Null where there is none; a damaged one is told of once and passed over.
std::shared_ptr<const Record> read_record(const std::string& path);

// Every file of the root that should be a record, environment by environment.  wanted: whether an
// environment is worth its files, told by its manifest; empty: all are.
std::vector<std::string> record_paths(const std::string& root,
                                      const std::function<bool(const std::string&)>& wanted = {});

// What record_paths() cannot look into, where the root exists, and manifests that are not of their
// directory: those are passed over, until a record is written there.
std::vector<Fault> directory_faults(const std::string& root);

// Why records there may be missing from record_paths(); empty: none are, or there is no such root.
std::string why_not_listed(const std::string& root);
// Of a fault that is no damage: whether it is that the file cannot be read.
bool is_unreadable(const Fault& fault);

// Writes the record, and its environment's manifest where no sound one is.  Answers 0 or errno.
int write_record(const std::string& root, const Record& record);

}  // namespace kda::tune
