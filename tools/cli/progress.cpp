#include "cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cli/tell.hpp"

namespace kda::cli {
namespace {

constexpr std::size_t kBarWidth = 24;
constexpr std::chrono::milliseconds kBetweenDraws{100};

// Columns of the terminal: a bar that wraps could not be wiped out again.
std::size_t width_of(std::FILE* stream) {
  winsize size{};
  const bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::lround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(std::FILE* stream, std::size_t total, const Settings& settings)
    : stream_(stream), total_(total), settings_(settings), terminal_(isatty(fileno(stream)) == 1) {}

Progress::~Progress() { clear(); }

void Progress::step(std::string_view what) {
  ++begun_;
  fraction_ = 0;
  what_ = what;
  detail_.clear();
  show(begun_ == 1);
}

void Progress::wait(std::string_view for_what) {
  what_ = for_what;
  detail_.clear();
  show(false);
}

void Progress::within(double fraction, std::string_view detail) {
  fraction_ = std::clamp(fraction, 0.0, 1.0);
  detail_ = detail;
  show(false);
}

void Progress::note(std::string_view line) {
  if (settings_.quiet) return;
  clear();
  tell(stream_, fmt::format("{}\n", line));
  if (begun_ > 0 && terminal_) show(true);
  std::fflush(stream_);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string Progress::left() const {
  const double begun = std::max(0.0, static_cast<double>(begun_) - 1 + fraction_);
  const double done = begun / static_cast<double>(std::max<std::size_t>(total_, 1));
  const bool limited = settings_.limit_seconds > 0;
  const double rest = limited ? settings_.limit_seconds - seconds() : 0;
  if (done <= 0.005) return limited ? fmt::format(", {} left", duration_text(rest)) : "";
  const double expected = seconds() * (1 - done) / done;
  return fmt::format(", {} left", duration_text(limited ? std::min(rest, expected) : expected));
}

std::string Progress::text() const {
  return fmt::format("{}/{}{}  {}{}{}", begun_, total_, left(), what_, detail_.empty() ? "" : ": ",
                     detail_);
}

void Progress::clear() {
  if (terminal_ && !settings_.quiet && shown_ != Clock::time_point{}) tell(stream_, "\r\033[K");
}

void Progress::show(bool at_once) {
  if (settings_.quiet) return;
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> since = now - shown_;
  if (!at_once && since < (terminal_ ? kBetweenDraws : settings_.between_lines)) return;
  shown_ = now;
  if (!terminal_) {
    tell(stream_, fmt::format("{} so far, {}\n", duration_text(seconds()), text()));
  } else {
    const double done = std::max(0.0, static_cast<double>(begun_) - 1 + fraction_);
    const auto filled = std::min(
        kBarWidth, static_cast<std::size_t>(kBarWidth * done /
                                            static_cast<double>(std::max<std::size_t>(total_, 1))));
    const std::string line = fmt::format("[{}{}] {}", std::string(filled, '#'),
                                         std::string(kBarWidth - filled, '.'), text());
    clear();
    tell(stream_, line.substr(0, width_of(stream_) - 1));
  }
  std::fflush(stream_);
}

}  // namespace kda::cli
