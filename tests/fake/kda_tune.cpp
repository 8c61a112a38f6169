// kda-tune on devices that are not there: $KDA_FAKE_DEVICES of them, which know the problems in
// $KDA_FAKE_PROBLEMS (words, separated by semicolons, each with other tokens); their kernels' o is
// $KDA_FAKE_O_FACTOR times what it should be.
#include <cstdlib>
#include <string>

#include "base/text.hpp"
#include "problem/problem.hpp"
#include "reference/inputs.hpp"
#include "tools/fake_gpu.hpp"
#include "tune/request.hpp"
#include "tune/small_problem.hpp"

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kda;
  test::FakeGpu gpu;
  gpu.devices = std::atoi(variable("KDA_FAKE_DEVICES", "1").c_str());
  gpu.o_factor = std::atof(variable("KDA_FAKE_O_FACTOR", "1").c_str());
  const std::string problems = variable("KDA_FAKE_PROBLEMS", "");
  for (const std::string_view words : base::split(problems, ';')) {
    Problem start;
    start.initial_state = start.final_state = true;
    const Result<Problem> parsed = problem::parse(words, start);
    const Result<Problem> complete = parsed ? problem::complete(*parsed) : parsed;
    if (!complete) return std::fprintf(stderr, "%s\n", complete.status().message().c_str()), 2;
    gpu.others.push_back(reference::make_tensors(*complete, complete->max_tokens, 1));
    const tune::SmallProblem small = tune::small_problem(*complete);
    gpu.small = reference::make_tensors(small.problem, small.problem.max_tokens,
                                        reference::cu_seqlens_of(small.lengths));
  }
  return tune_tool::main_of_tune(argc, argv, stdout, stderr);
}
