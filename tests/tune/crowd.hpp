// Measurers without a device: times come from a formula.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/words.hpp"
#include "tune/search.hpp"

namespace kda::test {

// Answers each candidate with what `time` says, and remembers whom it met.
class FormulaMeasurer : public tune::Measurer {
 public:
  using Time = std::function<double(const tune::Candidate&)>;
  explicit FormulaMeasurer(Time time) : time_(std::move(time)) {}

  std::map<std::string, tune::Outcome> faults;     // by to_text(candidate)
  std::vector<std::pair<std::string, int>> asked;  // name and rung
  Status failure;                                  // of every call
  std::function<void()> before;

  Status measure(std::span<const tune::Candidate> candidates, const tune::Timing& timing,
                 const Done& done) override {
    if (before) before();
    if (!failure) return failure;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      tune::Measurement m;
      m.candidate = candidates[i];
      const std::string name = to_text(m.candidate);
      asked.emplace_back(name, timing.rung);
      if (const auto fault = faults.find(name); fault != faults.end()) {
        m.outcome = fault->second;
        m.why = "as the test wants";
      } else {
        const double us = time_(m.candidate);
        m.time_us = {.n = static_cast<std::size_t>(timing.repeats),
                     .median = us,
                     .iqr = us * noise,
                     .min = us};
      }
      done(i, std::move(m));
    }
    return {};
  }

  double noise = 0.002;  // iqr over median

  int asked_in(int rung) const {
    int count = 0;
    for (const auto& each : asked) count += each.second == rung ? 1 : 0;
    return count;
  }

 private:
  Time time_;
};

// A tunable's value, 0 where the strategy has none of the name.
inline int value_of(const tune::Candidate& candidate, const std::string& name) {
  for (const auto& [tunable, value] : candidate.tuning) {
    if (tunable == name) return value;
  }
  return 0;
}

}  // namespace kda::test
