// Problems and devices in words.
#pragma once

#include <string>

#include "device/device.hpp"
#include "problem/problem.hpp"
#include "support/catch.hpp"

namespace kda::test {

// Complete; the defaults are problem::parse's.
inline Problem problem_in_words(const std::string& words) {
  const auto parsed = problem::parse(words);
  INFO(parsed.status().message());
  REQUIRE(parsed);
  const auto complete = problem::complete(*parsed);
  INFO(complete.status().message());
  REQUIRE(complete);
  return *complete;
}

inline const device::Device& h200() {
  static const device::Device device = *device::parse("h200");
  return device;
}
inline const device::Device& h100() {
  static const device::Device device = *device::parse("h100");
  return device;
}

}  // namespace kda::test
