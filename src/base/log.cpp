#include "base/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/text.hpp"

namespace kda {
namespace base::log {
namespace {

constexpr spdlog::level::level_enum spdlog_levels[] = {spdlog::level::trace, spdlog::level::debug,
                                                       spdlog::level::info,  spdlog::level::warn,
                                                       spdlog::level::err,   spdlog::level::off};

std::shared_ptr<spdlog::logger> stderr_logger() {
  auto logger =
      std::make_shared<spdlog::logger>("kda", std::make_shared<spdlog::sinks::stderr_sink_st>());
  logger->set_level(spdlog::level::trace);
  logger->set_pattern("[%n %H:%M:%S.%e %t] %l: %v");
  return logger;
}

// Made anew in a child of fork(): a thread of its parent may hold the mutex there for ever, and a
// fork cannot wait for it as for a ForkMutex, since a sink may wait for what the forking thread
// holds (Python's for the interpreter).
struct Turn {
  unsigned forks = base::forks();
  std::mutex mutex;  // one message at a time; guards the rest
  std::shared_ptr<spdlog::logger> logger;
};

struct State {
  std::atomic<LogLevel> level{LogLevel::off};
  std::atomic<const LogSink*> sink{nullptr};  // changed by who has the turn
  std::atomic<Turn*> turn{new Turn};

  Turn& of_process() {
    Turn* known = turn.load();
    if (known->forks == base::forks()) return *known;
    auto* fresh = new Turn;  // the other one is leaked
    if (turn.compare_exchange_strong(known, fresh)) return *fresh;
    delete fresh;
    return *known;
  }
};

// KDA_LOG is read here and not through env::choice, whose own complaint would come back to log.
State* make_state() {
  auto* state = new State;
  const std::string word = lower(trim(env::get("KDA_LOG")));
  if (word.empty()) return state;
  const std::span<const std::string_view> words = env::words_of("KDA_LOG");
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (word == words[i]) {
      state->level = static_cast<LogLevel>(i);
      return state;
    }
  }
  // Someone asked for messages: the first one says what was wrong with the asking.
  state->level = LogLevel::warn;
  const std::shared_ptr<spdlog::logger> logger = stderr_logger();
  state->turn.load()->logger = logger;
  logger->warn("KDA_LOG={} is none of trace, debug, info, warn, error, off; using warn",
               quote(word));
  return state;
}

State& state() {
  static constinit Lazy<State> state;
  return state.get(make_state);
}

// What this thread says while it holds a ForkMutex, in order: a sink may wait for what a thread
// that forks holds, and the fork for that mutex.
using Lines = std::vector<std::pair<LogLevel, std::string>>;
thread_local Lines* waiting = nullptr;

void write_waiting() noexcept {
  const std::unique_ptr<const Lines> lines(std::exchange(waiting, nullptr));
  if (lines == nullptr) return;
  for (const auto& [level, text] : *lines) write(level, text);
}

}  // namespace

bool enabled(LogLevel level) noexcept {
  return level != LogLevel::off && level >= state().level.load(std::memory_order_relaxed);
}

void write(LogLevel level, std::string_view text) noexcept try {
  if (!enabled(level)) return;
  if (holds_a_fork_mutex()) {
    if (waiting == nullptr) waiting = new Lines;
    waiting->emplace_back(level, text);
    when_free(write_waiting);
    return;
  }
  State& to = state();
  Turn& turn = to.of_process();
  const std::lock_guard lock(turn.mutex);
  if (const LogSink* sink = to.sink.load()) {
    (*sink)(level, text);
    return;
  }
  if (!turn.logger) turn.logger = stderr_logger();
  turn.logger->log(spdlog_levels[static_cast<int>(level)],
                   spdlog::string_view_t(text.data(), text.size()));
} catch (...) {  // NOLINT(bugprone-empty-catch)
}

}  // namespace base::log

void set_log(LogLevel level, LogSink sink) {
  base::log::State& to = base::log::state();
  auto fresh = sink ? std::make_unique<const LogSink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(to.of_process().mutex);
  fresh.reset(to.sink.exchange(fresh.release()));  // the one before ends here
  to.level = level;
}

}  // namespace kda
