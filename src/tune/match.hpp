// Whether a record answers a question, and how well.
#pragma once

#include <optional>
#include <string>

#include "tune/wisdom.hpp"

namespace kda::tune {

// What is asked of wisdom.
struct Question {
  Problem problem;  // complete
  device::Device device;
  std::optional<Environment> environment;  // none: no compiler could be asked
  std::string strategy;                    // empty: any

  std::string key;     // key_of(problem)
  std::string family;  // the same without the sizes: what nearest may differ in
};
Question question_of(const Problem& problem, const device::Device& device,
                     const std::string& strategy);

struct Fit {
  Match match;
  double distance = 0;  // of sizes, in doublings; then of devices
};
// Less is better.
bool better(const Fit& a, const Fit& b);

// None: it says nothing to the question.  key and family are the record's.
std::optional<Fit> fit_of(const Question& question, const Record& record, const std::string& key,
                          const std::string& family);

// key_of without T, N, H and HV, but with HV / H.
std::string family_of(const Problem& problem);

// The record's candidate for the strategy asked, with its time; null: it has none.
struct Answer {
  Candidate candidate;
  double microseconds;
};
std::optional<Answer> answer_of(const Question& question, const Record& record);

// "exact, user wisdom of 2026-11-21: 712.3 us, 14.2% under the default"
std::string words_of(const Question& question, const Record& record, const Fit& fit, Source source,
                     const Answer& answer);

}  // namespace kda::tune
