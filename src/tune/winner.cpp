#include "tune/winner.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kda::tune {

namespace {

// How much two medians may differ, relatively, without meaning anything.
double tolerance(const Measurement& a, const Measurement& b) {
  return std::max({kLeastGain, a.time_us.noise(), b.time_us.noise()});
}

// What `a` saves of b's time.
double gain_of(const Measurement& a, const Measurement& b) {
  return 1 - a.time_us.median / b.time_us.median;
}

bool beats(const Measurement& a, const Measurement& b) { return gain_of(a, b) > tolerance(a, b); }

}  // namespace

std::optional<Decision> decide(std::span<const Measurement> finals, const Candidate& fallback) {
  const Measurement* best = nullptr;
  const Measurement* standing = nullptr;  // the default
  for (const Measurement& each : finals) {
    if (each.outcome != Outcome::ok || each.time_us.n == 0) continue;
    if (best == nullptr || each.time_us.median < best->time_us.median) best = &each;
    if (each.candidate == fallback) standing = &each;
  }
  if (best == nullptr) return std::nullopt;

  const auto place = [&](const Measurement* m) {
    return static_cast<std::size_t>(m - finals.data());
  };
  if (standing != nullptr && !beats(*best, *standing)) {
    const double gain = gain_of(*best, *standing);
    return Decision{place(standing), 0.0,
                    best == standing
                        ? "the default is the fastest"
                        : fmt::format("the default stays: the fastest gains {:.1f}%, which is "
                                      "within {:.1f}%",
                                      100 * gain, 100 * tolerance(*best, *standing))};
  }

  const Measurement* winner = best;
  for (const Measurement& each : finals) {
    if (each.outcome != Outcome::ok || each.time_us.n == 0 || beats(*best, each)) continue;
    if (standing != nullptr && !beats(each, *standing)) continue;
    if (needs_less(each.needs, winner->needs)) winner = &each;
  }
  Decision decision{place(winner), std::nullopt, {}};
  if (standing == nullptr) {
    decision.words = "the default could not be timed";
  } else {
    decision.gain = gain_of(*winner, *standing);
    decision.words = fmt::format("{:.1f}% under the default", 100 * *decision.gain);
  }
  if (winner != best) {
    decision.words +=
        fmt::format("; the fastest, {}, is within noise and needs more", to_text(best->candidate));
  }
  return decision;
}

}  // namespace kda::tune
