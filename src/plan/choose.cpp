#include "plan/choose.hpp"

#include <fmt/format.h>

#include <utility>

#include "strategy/pick.hpp"

namespace kda::plan {

const char* name_of(Origin origin) noexcept {
  return origin == Origin::forced ? "forced" : "cost model";
}

Status check_device(const Options& options) {
  if (options.device >= -1) return {};
  return {
      Code::invalid_argument,
      fmt::format("device = {}; it is a CUDA ordinal, or -1 for the current one", options.device)};
}

Result<device::Device> device_of(const Options& options) {
  if (!options.target.empty()) return device::parse(options.target);
  if (Status status = check_device(options); !status) return status;
  return device::query(options.device);
}

Result<Choice> choose(const Problem& problem, const device::Device& device,
                      const Options& options) {
  Result<strategy::Pick> pick = strategy::pick(problem, device, options.strategy, options.tuning);
  if (!pick) return pick.status();
  return Choice{pick->strategy,
                options.strategy.empty() ? Origin::cost_model : Origin::forced,
                options.tuning.empty() ? Origin::cost_model : Origin::forced,
                pick->microseconds,
                std::move(pick->recipe),
                std::move(pick->passed_over)};
}

}  // namespace kda::plan
