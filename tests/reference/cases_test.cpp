#include "reference/cases.hpp"

#include <set>
#include <string>

#include "problem/problem.hpp"
#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;

TEST_CASE("every case is a legal problem whose sequences hold its tokens") {
  std::set<std::string> names;
  for (const Case& row : cases()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(find_case(row.name) == &row);
    const Result<Problem> complete = problem::complete(problem_of(row));
    REQUIRE(complete);
    CHECK(problem::to_text(*complete) == problem::to_text(problem_of(row)));
    const auto cu_seqlens = cu_seqlens_of(row);
    CHECK(static_cast<int>(cu_seqlens.size()) == row.sequences + 1);
    CHECK(cu_seqlens.back() == row.tokens);
    CHECK(row.floor <= row.goal);
    CHECK(row.goal < row.bar);
  }
  CHECK(names.size() == 23);
  CHECK(find_case("h95") == nullptr);
}
