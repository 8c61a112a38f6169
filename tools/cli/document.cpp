#include "cli/document.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/failure.hpp"
#include "cli/text_file.hpp"

namespace kda::cli {

struct Document::Parts {
  Json sections = Json::object();
};

Document::Document(const Output& output)
    : output_(output),
      format_(must(parse_format(output.format))),
      parts_(std::make_unique<Parts>()) {}

Document::~Document() = default;

void Document::keep(const std::string& section, const Json& rows) {
  std::string name = section;
  for (int number = 2; parts_->sections.contains(name); ++number) {
    name = fmt::format("{} ({})", section, number);
  }
  parts_->sections[name] = rows;
}

void Document::add(const std::string& section, const Json& rows, std::span<const Column> columns) {
  keep(section, rows);
  if (!for_people()) return;
  if (!text_.empty()) text_ += "\n";
  text_ += format_ == Format::md ? fmt::format("## {}\n\n", section) : fmt::format("{}\n", section);
  text_ += rows.empty() ? "none\n" : render(rows, columns, format_);
}

void Document::say(const std::string& line) {
  if (!text_.empty()) text_ += "\n";
  text_ += line + "\n";
}

void Document::tell(const std::string& section, const Json& rows, const std::string& sentence) {
  keep(section, rows);
  if (for_people()) say(sentence);
}

void Document::print() const {
  std::string text = text_;
  if (format_ == Format::json) {
    text = parts_->sections.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  } else if (format_ == Format::jsonl || format_ == Format::csv) {
    Json all = Json::array();
    for (const auto& [name, rows] : parts_->sections.items()) {
      for (const Json& row : rows) {
        Json& copy = all.emplace_back(Json{{"section", name}});
        copy.update(row);
      }
    }
    text = render(all, {}, format_);
  }
  write_text(output_.file, text, output_.out);
}

}  // namespace kda::cli
