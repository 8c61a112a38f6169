#include "worker/messages.hpp"

#include <limits>
#include <utility>

#include "problem/problem.hpp"
#include "tune/fields_of.hpp"

namespace kda::worker {
namespace {

using tune::Fields;
using tune::Json;

constexpr int kMost = std::numeric_limits<int>::max();

Json json_of(const tune::Timing& timing) {
  return {{"rung", timing.rung},           {"repeats", timing.repeats},
          {"window_us", timing.window_us}, {"interleaved", timing.interleaved},
          {"at_size", timing.at_size},     {"give_up_us", timing.give_up_us}};
}

bool is_true(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name] == true;
}

tune::Timing timing_of(const Json& json) {
  Fields fields(json, "timing");
  return {.rung = static_cast<int>(fields.integer("rung", 0, tune::kFinals)),
          .repeats = static_cast<int>(fields.integer("repeats", 1, kMost)),
          .window_us = fields.number("window_us"),
          .interleaved = is_true(json, "interleaved"),
          .at_size = is_true(json, "at_size"),
          .give_up_us = fields.number("give_up_us")};
}

}  // namespace

std::string to_line(const Subject& subject) {
  return tune::line_of({{"problem", problem::to_text(subject.problem)},
                        {"lengths", subject.lengths},
                        {"regime", subject.regime},
                        {"seed", subject.seed}});
}

std::string to_line(std::span<const tune::Candidate> candidates, const tune::Timing& timing) {
  Json list = Json::array();
  for (const tune::Candidate& each : candidates) {
    list.push_back({{"strategy", each.strategy}, {"tuning", tunable::to_text(each.tuning)}});
  }
  return tune::line_of({{"measure", std::move(list)}, {"timing", json_of(timing)}});
}

bool is_order(std::string_view line) { return Fields(line, "message").has("measure"); }

Result<Subject> parse_subject(std::string_view line) {
  Fields fields(line, "subject");
  const Result<Problem> parsed = problem::parse(fields.text("problem"));
  const Result<Problem> complete = parsed ? problem::complete(*parsed) : parsed;
  if (!complete) fields.refuse(complete.status().message());
  Subject subject;
  subject.lengths = fields.integers("lengths");
  subject.regime = fields.text("regime");
  subject.seed = static_cast<std::uint64_t>(
      fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  if (!fields.status()) return fields.status();
  subject.problem = *complete;
  return subject;
}

Result<Order> parse_order(std::string_view line) {
  Fields fields(line, "order");
  Order order;
  for (const Json& each : fields.array("measure")) {
    Fields candidate(each, "candidate");
    order.candidates.push_back(tune::candidate_of(candidate));
    if (!candidate.status()) return candidate.status();
  }
  order.timing = timing_of(fields.object("timing"));
  if (!fields.status()) return fields.status();
  return order;
}

std::string to_line(const Reply& reply) {
  switch (reply.kind) {
    case Reply::Kind::ready:
      return tune::line_of({{"ready", true}});
    case Reply::Kind::measurement:
      return tune::line_of(
          {{"index", reply.index}, {"measurement", tune::json_of(reply.measurement)}});
    case Reply::Kind::end:
      return tune::line_of({{"end", true}});
    case Reply::Kind::failed:
      break;
  }
  return tune::line_of({{"failed", reply.why}});
}

Reply parse_reply(std::string_view line) {
  Fields fields(line, "reply");
  Reply reply;
  if (!fields.status()) {
    reply.why = "it said " + std::string(line.substr(0, 200));
  } else if (fields.has("ready")) {
    reply.kind = Reply::Kind::ready;
  } else if (fields.has("end")) {
    reply.kind = Reply::Kind::end;
  } else if (fields.has("failed")) {
    reply.why = fields.text("failed");
  } else {
    reply.index = static_cast<std::size_t>(fields.integer("index", 0, kMost));
    Result<tune::Measurement> measurement = tune::measurement_of(fields.object("measurement"));
    if (measurement && fields.status().ok()) {
      reply.kind = Reply::Kind::measurement;
      reply.measurement = *std::move(measurement);
    } else {
      reply.why = (measurement ? fields.status() : measurement.status()).message();
    }
  }
  return reply;
}

}  // namespace kda::worker
