// Checks of options that are numbers or files: short complaints, which name what would do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace kda::cli {

// "0 is not a whole number from 1 to 1024"
CLI::Validator whole(std::int64_t least, std::int64_t most);

// "nan is not a number from 0 to 1000000000"
CLI::Validator number(double least, double most);

// "an empty name is no file; rows.txt is one": an unset variable in a script, say.
CLI::Validator file_name(const char* example);

// "an empty name is no directory; without the option it is the library's own"
CLI::Validator directory_name();

// "an empty size is none; 200M is one"
CLI::Validator size_words();

constexpr std::int64_t kMostDevices = 1024;
constexpr std::int64_t kMostJobs = 1024;
constexpr std::int64_t kMostMeasurements = 1'000'000'000;
constexpr std::int64_t kMostSeed = std::numeric_limits<std::int64_t>::max();  // of a journal
constexpr double kMostSeconds = 1e9;
constexpr double kMostPercent = 1e6;

}  // namespace kda::cli
