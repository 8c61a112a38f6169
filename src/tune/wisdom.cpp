#include "tune/wisdom.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "strategy/table.hpp"
#include "tune/match.hpp"
#include "tune/roots.hpp"
#include "tune/shipped.hpp"

namespace kda::tune {

namespace {

namespace env = base::env;

// "capability":"9.0", as records and manifests spell it: tells without parsing whether a text may
// say anything about a device.
std::string mark_of(const device::Device& device) {
  return fmt::format("\"capability\":\"{}.{}\"", device.major, device.minor);
}

std::string root_of(const std::string& directory, const std::string& cache_dir) {
  if (!directory.empty()) return base::file::absolute(directory);
  if (const std::string named = env::get("KDA_WISDOM_DIR"); !named.empty()) {
    return base::file::absolute(named);
  }
  const std::string cache = cache_dir.empty() ? env::cache_root() : base::file::absolute(cache_dir);
  return cache.empty() ? cache : base::file::join(cache, "wisdom");
}

// Whoever may write it, or the directory of kernels in which it lies, chooses what runs.
std::string distrust(const std::string& root, const std::string& cache_dir) {
  const std::string cache = cache_dir.empty() ? env::cache_root() : base::file::absolute(cache_dir);
  if (!cache.empty() && root == base::file::join(cache, "wisdom")) {
    if (std::string why = base::distrust(cache, "KDA_WISDOM_PATH"); !why.empty()) return why;
  }
  return base::distrust(root, "KDA_WISDOM_PATH");
}

std::vector<std::string> shared_roots() {
  std::vector<std::string> roots;
  const std::string path = env::get("KDA_WISDOM_PATH");
  for (const std::string_view each : base::split(path, ':')) {
    const std::string_view place = base::trim(each);
    if (!place.empty()) roots.push_back(base::file::absolute(std::string(place)));
  }
  return roots;
}

// A strategy and tuning that this library can compose for just this problem.
bool serves(const Question& question, const Candidate& candidate) {
  const strategy::Strategy* strategy = strategy::find(candidate.strategy);
  return strategy != nullptr && strategy->applicable(question.problem, question.device).ok() &&
         strategy->compose(question.problem, question.device, candidate.tuning);
}

}  // namespace

struct Wisdom::Impl {
  std::string root;
  std::string distrusted;  // why root is not used
  std::vector<std::string> shared;
  bool reads = true, writes = true;

  mutable base::ForkMutex mutex{base::ForkRank::wisdom};  // guards the rest
  mutable std::map<std::string, Known> exact;  // by environment and key, as found or added
  mutable std::map<std::string, std::vector<Known>> all;  // by capability's mark: everything
  std::vector<Known> added;                               // by this process
  std::atomic<std::uint64_t> generation{0};

  std::vector<std::pair<std::string, Source>> roots() const {
    std::vector<std::pair<std::string, Source>> list;
    if (!reads) return list;
    if (!root.empty() && distrusted.empty()) list.emplace_back(root, Source::user);
    for (const std::string& each : shared) list.emplace_back(each, Source::shared);
    return list;
  }

  const Known* find_exact(const Question& question) const {
    if (!question.environment) return nullptr;
    const std::string environment = digest(*question.environment);
    const std::string key = key_digest(question.problem);
    const auto [place, fresh] = exact.try_emplace(environment + key);
    Known& slot = place->second;
    if (!fresh) return slot.record ? &slot : nullptr;
    for (const auto& [directory, source] : roots()) {
      const std::string path = path_of(directory, environment, key);
      if (auto record = read_record(path)) {
        // A file under another's name answers no question.
        if (key_of(record->problem) != question.key ||
            !(record->environment == *question.environment)) {
          continue;
        }
        slot = known(*record, source, path);
        return &slot;
      }
    }
    for (const char* line : shipped_lines()) {
      const std::string_view text = line;
      if (text.find(key) == std::string_view::npos) continue;
      Result<Record> record = parse_record(text);
      if (!record || key_of(record->problem) != question.key ||
          !(record->environment == *question.environment)) {
        continue;
      }
      slot = known(*std::move(record), Source::shipped, "");
      return &slot;
    }
    return nullptr;
  }

  // Everything that may say something about a device like this one.
  const std::vector<Known>& everything(const device::Device& device) const {
    const std::string mark = mark_of(device);
    const auto [place, fresh] = all.try_emplace(mark);
    std::vector<Known>& list = place->second;
    if (!fresh) return list;
    list = added;
    for (const auto& [directory, source] : roots()) {
      const auto wanted = [&](const std::string& manifest) {
        return manifest.find(mark) != std::string::npos;
      };
      for (const std::string& path : record_paths(directory, wanted)) {
        if (auto record = read_record(path)) list.push_back(known(*record, source, path));
      }
    }
    for (const char* line : shipped_lines()) {
      if (std::string_view(line).find(mark) == std::string_view::npos) continue;
      if (Result<Record> record = parse_record(line)) {
        list.push_back(known(*std::move(record), Source::shipped, ""));
      }
    }
    return list;
  }
};

Wisdom::Wisdom(const std::string& directory, const std::string& cache_dir, env::CacheMode mode)
    : impl_(std::make_unique<Impl>()) {
  impl_->root = root_of(directory, cache_dir);
  impl_->shared = shared_roots();
  impl_->reads = mode != env::CacheMode::off;
  impl_->distrusted = distrust(impl_->root, cache_dir);
  impl_->writes =
      mode == env::CacheMode::read_write && !impl_->root.empty() && impl_->distrusted.empty();
  if (impl_->reads && !impl_->distrusted.empty()) {
    base::log::warn(
        fmt::format("wisdom: {}; measurements are neither read there nor kept", impl_->distrusted));
  }
}

Wisdom::~Wisdom() = default;

const std::string& Wisdom::directory() const noexcept { return impl_->root; }
bool Wisdom::keeps() const noexcept { return impl_->writes; }
const std::string& Wisdom::distrusted() const noexcept { return impl_->distrusted; }
std::uint64_t Wisdom::generation() const noexcept { return impl_->generation; }

std::optional<Hint> Wisdom::find(const Problem& problem, const device::Device& device,
                                 const std::string& strategy) const {
  const Question question = question_of(problem, device, strategy);
  const auto hint = [&](const Known& known, const Fit& fit, const Answer& answer) {
    return Hint{known.record,        fit.match,
                known.source,        answer.candidate,
                answer.microseconds, words_of(question, *known.record, fit, known.source, answer)};
  };

  const std::lock_guard lock(impl_->mutex);
  if (const Known* exact = impl_->find_exact(question)) {
    const std::optional<Answer> answer = answer_of(question, *exact->record);
    if (answer && serves(question, answer->candidate))
      return hint(*exact, {Match::exact, 0}, *answer);
  }

  struct Option {
    const Known* known;
    Fit fit;
    Answer answer;
  };
  std::vector<Option> options;
  for (const Known& each : impl_->everything(device)) {
    const std::optional<Fit> fit = fit_of(question, *each.record, each.key, each.family);
    if (!fit) continue;
    if (const auto answer = answer_of(question, *each.record)) {
      options.push_back({&each, *fit, *answer});
    }
  }
  std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) {
    if (better(a.fit, b.fit) || better(b.fit, a.fit)) return better(a.fit, b.fit);
    if (a.known->source != b.known->source) return a.known->source < b.known->source;
    return a.known->record->date > b.known->record->date;
  });
  for (const Option& each : options) {
    if (serves(question, each.answer.candidate)) return hint(*each.known, each.fit, each.answer);
  }
  return std::nullopt;
}

Status Wisdom::add(const Record& record) {
  int error = 0;
  std::string path;
  if (impl_->writes) {
    path = path_of(impl_->root, digest(record.environment), key_digest(record.problem));
    error = write_record(impl_->root, record);
  }
  const std::lock_guard lock(impl_->mutex);
  Known fresh = known(record, Source::user, path);
  std::erase_if(impl_->added, [&](const Known& old) {
    return old.key == fresh.key && old.record->environment == record.environment;
  });
  impl_->exact[digest(record.environment) + key_digest(record.problem)] = fresh;
  impl_->added.push_back(std::move(fresh));
  impl_->all.clear();
  ++impl_->generation;
  if (error == 0) return {};
  return {Code::invalid_argument,
          fmt::format("wisdom cannot be kept in {}: {}", impl_->root, base::file::describe(error))};
}

std::vector<Wisdom::Listed> Wisdom::list() const {
  std::vector<Listed> listed;
  for (const auto& [directory, source] : impl_->roots()) {
    for (const std::string& path : record_paths(directory)) {
      if (auto record = read_record(path)) listed.push_back({record, source, path});
    }
  }
  {
    const std::lock_guard lock(impl_->mutex);
    for (const Known& each : impl_->added) {
      if (each.path.empty()) listed.push_back({each.record, each.source, ""});  // no disk took it
    }
  }
  for (const char* line : shipped_lines()) {
    if (Result<Record> record = parse_record(line)) {
      listed.push_back({std::make_shared<const Record>(*std::move(record)), Source::shipped, ""});
    }
  }
  return listed;
}

void Wisdom::reload() {
  const std::lock_guard lock(impl_->mutex);
  impl_->exact.clear();
  impl_->all.clear();
  if (impl_->writes) impl_->added.clear();  // they are on disk
  ++impl_->generation;
}

namespace {

struct Every {
  base::ForkMutex mutex{base::ForkRank::wisdoms};
  std::map<std::string, std::shared_ptr<Wisdom>> by_name;
};

}  // namespace

std::shared_ptr<Wisdom> shared_wisdom(const std::string& directory, const std::string& cache_dir,
                                      env::CacheMode mode) {
  // The environment may change between two calls.
  static constinit base::Lazy<Every> of_process;
  Every& every = of_process.get();
  const std::string root = root_of(directory, cache_dir);
  const std::string name = fmt::format("{}\n{}\n{}\n{}", root, env::get("KDA_WISDOM_PATH"),
                                       static_cast<int>(mode), distrust(root, cache_dir));
  {
    const std::lock_guard lock(every.mutex);
    if (const auto known = every.by_name.find(name); known != every.by_name.end()) {
      return known->second;
    }
  }
  // Made outside the lock, as a shared cache is: it enrols a mutex of its own for forks.
  auto fresh = std::make_shared<Wisdom>(directory, cache_dir, mode);
  const std::lock_guard lock(every.mutex);
  return every.by_name.try_emplace(name, fresh).first->second;
}

}  // namespace kda::tune
