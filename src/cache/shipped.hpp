// The bundles that are linked into the program.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cache/bundle.hpp"
#include "kda/status.hpp"

namespace kda::cache {

// The bytes must stay until the process ends.  Fails as Bundle::open; the same bytes twice are one.
Status add_linked_bundle(std::string_view bytes);

std::vector<std::shared_ptr<const Bundle>> linked_bundles();

}  // namespace kda::cache
