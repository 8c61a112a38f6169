// Messages for people, by level; see kda/log.hpp for where they go.  Callers format their own text:
//
//   if (log::enabled(LogLevel::debug)) log::debug(fmt::format("{} found on disk", name));
#pragma once

#include <string_view>

#include "kda/log.hpp"

namespace kda::base::log {

bool enabled(LogLevel level) noexcept;

// Never throws: a message that cannot be written is lost.
void write(LogLevel level, std::string_view text) noexcept;

inline void trace(std::string_view text) noexcept { write(LogLevel::trace, text); }
inline void debug(std::string_view text) noexcept { write(LogLevel::debug, text); }
inline void info(std::string_view text) noexcept { write(LogLevel::info, text); }
inline void warn(std::string_view text) noexcept { write(LogLevel::warn, text); }
inline void error(std::string_view text) noexcept { write(LogLevel::error, text); }

}  // namespace kda::base::log
