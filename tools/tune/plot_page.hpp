// The page that plots searches: one self-contained HTML file.
#pragma once

#include <span>
#include <string>

#include "tune/journal.hpp"

namespace kda::tune_tool {

// Of each journal: how the search converged, a heat map over two tunables, where every candidate
// stands under the roofline, the finals.  Needs nothing from the network.
std::string plot_page(std::span<const tune::JournalContents> journals);

}  // namespace kda::tune_tool
