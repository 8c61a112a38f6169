// The library's messages.  It is silent unless KDA_LOG or set_log asks.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace kda {

enum class LogLevel : std::int32_t { trace, debug, info, warn, error, off };

// Called from any thread, the library's own among them, one message at a time, without a newline.
// Must not call kda.  What it throws is swallowed.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// From now on messages of this level and above go to the sink; without one, to stderr.  Wins over
// KDA_LOG.  From any thread; waits for a message that is being written, so once it has returned the
// sink before is not called again.
void set_log(LogLevel level, LogSink sink = {});

}  // namespace kda
