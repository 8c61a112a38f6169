// Which candidates a search looks at, before and while it measures.
#pragma once

#include <vector>

#include "tune/candidate.hpp"

namespace kda::tune {

using Crowd = std::vector<const Listed*>;

// At most so many of `all` (by expected time, the default first): the default; of each strategy the
// likeliest; the rest shared among the strategies that the cost model does not rule out.  Where it
// cannot tell candidates apart they are drawn by lot, the same for every problem, so that problems
// share kernels.
Crowd shortlist(const Crowd& all, std::size_t most);

// Whether they differ by one tunable, one place in its row.
bool neighbours(const Candidate& a, const Candidate& b);

}  // namespace kda::tune
