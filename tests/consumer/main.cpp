// Touches every function that include/kda declares, so that a missing export fails to link.
#include <cstdio>
#include <kda/bundle.hpp>
#include <kda/kda.hpp>
#include <kda/log.hpp>
#include <utility>
#include <vector>

int main(int, char** argv) {
  kda::set_log(kda::LogLevel::warn, [](kda::LogLevel, std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  });

  if (kda::add_bundle({}).ok()) return 1;  // nothing is no bundle
  const kda::Problem problem{.heads = 2, .value_heads = 4, .max_tokens = 64};
  const kda::Options options{.target = "sm_90a", .cache_dir = argv[1]};
  if (const kda::Status status = kda::supports(problem, options); !status.ok()) {
    std::fprintf(stderr, "%s: %s\n", kda::name_of(status.code()), status.message().c_str());
    return 1;
  }
  kda::Result<kda::Plan> made = kda::Plan::make(problem, options);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.status().message().c_str());
    return 1;
  }
  kda::Plan plan = *std::move(made);
  std::vector<kda::Result<kda::Plan>> both = kda::Plan::make_all(std::vector{problem}, options);
  plan = *std::move(both.at(0));
  std::printf("%s\nworkspace: %zu bytes, V = %d\n", plan.describe().c_str(), plan.workspace_bytes(),
              plan.problem().value_dim);

  const kda::Status run = plan.run({}, nullptr, 0, nullptr);  // only named devices do not run
  std::printf("run: %s\n", run.message().c_str());
  return run.ok() ? 1 : 0;
}
