// Keeps a cache directory within its bytes: what was used longest ago goes first.
#pragma once

#include <cstdint>
#include <string>

namespace kda::cache {

constexpr std::int64_t kDefaultMaxBytes = std::int64_t{1} << 30;  // of KDA_CACHE_MAX_SIZE

struct Swept {
  std::size_t entries = 0, bytes = 0;  // that went
  std::size_t leftovers = 0;           // half-written files and damaged entries that went
  std::size_t kept_bytes = 0;
  bool busy = false;  // another process was at it: nothing was done
  // Why no entry went: others may write a folder of it, or entries lie behind a link; else empty.
  std::string distrusted;
};

// How recently an entry was used is its own time of change, which hits renew, hourly at most (a
// filesystem's time of access may stand still).  Times are compared as distances from now, so that
// those from before a clock was set back grow old too.
constexpr std::int64_t kRenewSeconds = 3600;
// Younger entries stay: somebody may be about to load them.
constexpr std::int64_t kYoungSeconds = 600;
// Older temporary files are nobody's.
constexpr std::int64_t kLeftoverSeconds = 3600;

bool is_worn(std::int64_t changed, std::int64_t now, std::int64_t seconds);

// Removes entries of <root>/v1 until at most `target` bytes are left, if there are more than `cap`;
// damaged ones set aside, and temporary files that their writers left, whenever they are old.
Swept sweep(const std::string& root, std::int64_t cap, std::int64_t target,
            std::int64_t young_seconds = kYoungSeconds);

}  // namespace kda::cache
