#include "compile/toolchain.hpp"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <vector>

#include "base/digest.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "compile/library.hpp"

namespace kda::compile {
namespace {

namespace env = base::env;
namespace file = base::file;

constexpr std::size_t kMaxNoteBytes = 1 << 16;
constexpr std::size_t kMaxRecords = 8;  // toolchains a machine switches between

// Where the note lies.
struct Place {
  std::string directory;
  env::CacheMode mode;
};

// One toolchain that was opened before: how it was found and how the files looked.
struct Record {
  std::string inputs;  // digest of search_inputs()
  std::string stamps;  // of libnvrtc and its builtins
  Toolchain toolchain;
  bool noted = false;  // and not opened by this process
};

struct State {
  base::ForkMutex mutex{base::ForkRank::toolchain};
  std::optional<Place> place;
  std::optional<Record> known;
  bool doubts = false;  // what notes say
};

State& state() {
  static constinit base::Lazy<State> state;
  return state.get();
}

// The builtins matter too: they hold the device library that is linked into every kernel.
std::string stamps_of(const Toolchain& toolchain) {
  std::string library;
  std::string real_path;
  if (file::stamp(toolchain.path, library, &real_path) != 0) return {};
  std::string builtins;
  (void)file::stamp(
      fmt::format("{}/libnvrtc-builtins.so.{}.{}", real_path.substr(0, real_path.find_last_of('/')),
                  toolchain.major, toolchain.minor),
      builtins);
  return library + "; " + builtins;
}

std::string to_line(const Record& record) {
  const base::Setting settings[] = {{"inputs", record.inputs},
                                    {"stamps", record.stamps},
                                    {"path", record.toolchain.path},
                                    {"major", std::to_string(record.toolchain.major)},
                                    {"minor", std::to_string(record.toolchain.minor)},
                                    {"build", record.toolchain.build}};
  const std::string text = base::to_text(settings);
  return fmt::format("{} {}\n", base::digest(text), text);
}

std::optional<Record> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view check = line.substr(0, space);
  line.remove_prefix(space + 1);
  if (check != base::digest(line)) return std::nullopt;  // a bent digit would be in every key
  const Result<std::vector<base::Setting>> settings = base::parse_settings(line);
  if (!settings) return std::nullopt;
  Record record;
  int numbers = 0;
  for (const auto& [name, value] : *settings) {
    const auto number = static_cast<int>(base::parse_integer(value).value_or(-1));
    if (name == "inputs") record.inputs = value;
    if (name == "stamps") record.stamps = value;
    if (name == "path") record.toolchain.path = value;
    if (name == "build") record.toolchain.build = value;
    if (name == "major") record.toolchain.major = number, numbers += number > 0 ? 1 : 0;
    if (name == "minor") record.toolchain.minor = number, numbers += number >= 0 ? 1 : 0;
  }
  if (numbers != 2 || record.stamps.empty() || record.toolchain.build.empty()) return std::nullopt;
  return record;
}

std::vector<Record> read_note(const std::string& path) {
  std::vector<Record> records;
  std::string text;
  file::Info info;
  if (path.empty() || file::read(path, kMaxNoteBytes, text, &info) != 0) return records;
  // Who can write it chooses what library is loaded.
  if (!base::trusts_owner(info.owner) || (info.others_write && !base::trusts_others())) {
    return records;
  }
  for (const std::string_view line : base::split(text, '\n')) {
    if (std::optional<Record> record = parse_line(line)) records.push_back(*std::move(record));
  }
  return records;
}

// Two processes may both rewrite the note; one loses its record, which costs it one opening.
void write_note(const std::string& directory, const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += to_line(record);
  const std::string temporary = directory + "/v1/tmp";  // where the cache sweeps (cache/layout.hpp)
  int error = file::make_directories(temporary);
  if (error == 0) error = file::publish(temporary, directory + "/toolchain.txt", text);
  if (error != 0) {
    base::log::debug(
        fmt::format("no note of the toolchain in {}: {}", directory, file::describe(error)));
  }
}

Place place_by_environment() {
  std::string directory = env::cache_root();
  // A planted note would name a compiler that was not asked.
  if (!base::distrust(directory).empty()) directory.clear();
  return {directory, env::cache_mode()};
}

Result<Record> find(const Place& place, bool doubts) {
  const auto& [directory, mode] = place;
  const bool reads = mode != env::CacheMode::off && !directory.empty();
  const std::string path = reads ? directory + "/toolchain.txt" : std::string();
  std::vector<Record> records = read_note(path);
  Record now{.inputs = base::digest(search_inputs())};
  for (Record& record : records) {
    record.noted = true;
    const bool holds = record.inputs == now.inputs && record.stamps == stamps_of(record.toolchain);
    if (holds && !doubts) return record;
  }

  const Result<const Nvrtc*> nvrtc = open_nvrtc();
  if (!nvrtc) return nvrtc.status();
  now.toolchain = {.path = (*nvrtc)->path,
                   .major = (*nvrtc)->major,
                   .minor = (*nvrtc)->minor,
                   .build = (*nvrtc)->build};
  now.stamps = stamps_of(now.toolchain);
  if (mode == env::CacheMode::read_write && reads && !now.stamps.empty()) {
    std::erase_if(records, [&](const Record& record) { return record.inputs == now.inputs; });
    records.insert(records.begin(), now);
    if (records.size() > kMaxRecords) records.resize(kMaxRecords);
    write_note(directory, records);
  }
  return now;
}

}  // namespace

Result<Toolchain> toolchain() {
  State& to = state();
  const std::lock_guard lock(to.mutex);
  if (!to.known) {
    Result<Record> found = find(to.place ? *to.place : place_by_environment(), to.doubts);
    if (!found) return found.status();
    to.known = *std::move(found);
  }
  return to.known->toolchain;
}

void forget_replaced_toolchain() {
  State& to = state();
  const std::lock_guard lock(to.mutex);
  if (!to.known || nvrtc_is_open() || to.known->stamps == stamps_of(to.known->toolchain)) return;
  base::log::info(fmt::format("{} is no longer what it was; looking for NVRTC again",
                              to.known->toolchain.path));
  to.known.reset();
}

bool forget_noted_toolchain() {
  State& to = state();
  const std::lock_guard lock(to.mutex);
  if (!to.known || !to.known->noted) return false;
  base::log::info(
      fmt::format("{} does not open, though a note says it does; looking for NVRTC again",
                  to.known->toolchain.path));
  to.known.reset();
  to.doubts = true;
  return true;
}

void keep_toolchain_note_in(const std::string& directory, env::CacheMode mode) {
  State& to = state();
  const std::lock_guard lock(to.mutex);
  to.place = Place{directory, mode};
}

}  // namespace kda::compile
