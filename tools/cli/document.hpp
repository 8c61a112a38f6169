// What a subcommand prints: named sections of rows, in the format and place the user chose.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "cli/rows.hpp"

namespace kda::cli {

struct Output {
  std::string format = "table";
  std::string file = "-";
  bool quiet = false;  // no progress
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

// table and md: a heading and a table a section; json: one object holding each section's rows under
// its name; jsonl and csv: all rows, each naming its section.
class Document {
 public:
  explicit Document(const Output& output);  // throws Failure on an unknown format
  ~Document();
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  // A section of a name that is there already gets a number behind it.
  void add(const std::string& section, const Json& rows, std::span<const Column> columns);
  // A line for people: shown by table and md only.
  void say(const std::string& line);
  // Rows for programs, of which people get the sentence.
  void tell(const std::string& section, const Json& rows, const std::string& sentence);
  // table or md
  bool for_people() const { return format_ == Format::table || format_ == Format::md; }
  // Throws Failure where it cannot be written.
  void print() const;

 private:
  void keep(const std::string& section, const Json& rows);

  const Output& output_;
  Format format_;
  std::string text_;  // table and md
  struct Parts;       // every format
  std::unique_ptr<Parts> parts_;
};

}  // namespace kda::cli
