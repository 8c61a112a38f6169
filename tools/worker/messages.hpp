// What a search and its workers say to each other: one JSON object a line.
//
//   search -> worker  {"problem": "T=...", "lengths": [...], "regime": "mixed", "seed": 1}
//   worker -> search  {"ready": 0.8}                   seconds it took; or {"failed": "why"}
//   search -> worker  {"measure": [{"strategy": "chunk", "tuning": "..."}, ...], "timing": {...}}
//   worker -> search  {"index": 0, "measurement": {...}}   each candidate, as it comes
//                     {"end": true}                    or {"failed": "why"}: it ends itself
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tune/search.hpp"
#include "worker/inputs.hpp"

namespace kda::worker {

std::string to_line(const Subject& subject);
std::string to_line(std::span<const tune::Candidate> candidates, const tune::Timing& timing);

struct Order {
  std::vector<tune::Candidate> candidates;
  tune::Timing timing;
};
bool is_order(std::string_view line);
Result<Subject> parse_subject(std::string_view line);
Result<Order> parse_order(std::string_view line);

struct Reply {
  enum class Kind { ready, measurement, end, failed } kind = Kind::failed;
  std::size_t index = 0;
  tune::Measurement measurement;
  std::string why;
};
std::string to_line(const Reply& reply);
// A line that is none is Kind::failed.
Reply parse_reply(std::string_view line);

}  // namespace kda::worker
