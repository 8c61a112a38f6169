#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace kda::cli {
namespace {

constexpr std::size_t kBarWidth = 24;

}  // namespace

Progress::Progress(std::FILE* stream, std::size_t total, bool quiet)
    : stream_(stream), total_(total), quiet_(quiet), terminal_(isatty(fileno(stream)) == 1) {}

Progress::~Progress() { clear(); }

void Progress::step(std::string_view what) {
  ++begun_;
  what_ = what;
  if (quiet_) return;
  if (terminal_) {
    draw();
  } else {
    const std::chrono::duration<double> spent = Clock::now() - start_;
    fmt::print(stream_, "[{}/{}] {:.1f} s  {}\n", begun_, total_, spent.count(), what);
    std::fflush(stream_);
  }
}

void Progress::note(std::string_view line) {
  if (quiet_) return;
  clear();
  fmt::print(stream_, "{}\n", line);
  if (terminal_ && begun_ > 0) draw();
  std::fflush(stream_);
}

void Progress::clear() {
  if (terminal_ && !quiet_) fmt::print(stream_, "\r\033[K");
}

void Progress::draw() {
  const std::size_t done = begun_ - 1;
  const std::size_t filled =
      std::min(kBarWidth, kBarWidth * done / std::max<std::size_t>(total_, 1));
  const std::chrono::duration<double> spent = Clock::now() - start_;
  const std::string left =
      done == 0 ? ""
                : fmt::format(", {:.0f} s left", spent.count() / static_cast<double>(done) *
                                                     static_cast<double>(total_ - done));
  clear();
  fmt::print(stream_, "[{}{}] {}/{}{}  {}", std::string(filled, '#'),
             std::string(kBarWidth - filled, '.'), begun_, total_, left, what_);
  std::fflush(stream_);
}

}  // namespace kda::cli
