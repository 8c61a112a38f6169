// The parts of measurements and records as JSON: what journal, wisdom and child processes share.
#pragma once

#include "tune/environment.hpp"
#include "tune/json.hpp"
#include "tune/measurement.hpp"

namespace kda::tune {

Json json_of(const measure::Summary& summary);
Json json_of(const Needs& needs);
Json json_of(const Measurement& measurement);
Json json_of(const Environment& environment);

// What is missing or of the wrong kind is refused in `fields` or, where there is none, zero: a
// number that only informs makes no record unusable.
measure::Summary summary_of(const Json& json, const char* what);
Needs needs_of(const Json& json);
Candidate candidate_of(Fields& fields);  // its "strategy" and "tuning"
Environment environment_of(Fields& from);
Result<Measurement> measurement_of(const Json& json);

}  // namespace kda::tune
