// The calls of kda.h, each over the C++ one of its name.
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "api/c_convert.hpp"
#include "api/c_enums.hpp"
#include "api/last_message.hpp"
#include "base/text.hpp"
#include "kda/bundle.hpp"
#include "kda/kda.h"
#include "kda/kda.hpp"
#include "kda/log.hpp"

struct kda_plan {
  explicit kda_plan(kda::Plan made) : plan(std::move(made)) {}

  kda::Plan plan;
  mutable std::once_flag described;
  mutable std::string description;
};

namespace {

using namespace kda;

Status null(const char* what) { return {Code::invalid_argument, std::string(what) + " is null"}; }

}  // namespace

extern "C" {

void kda_problem_init_sized(kda_problem* problem, size_t struct_size) {
  api::init(problem, struct_size);
}
void kda_options_init_sized(kda_options* options, size_t struct_size) {
  api::init(options, struct_size);
}
void kda_forward_init_sized(kda_forward* forward, size_t struct_size) {
  api::init(forward, struct_size);
}

kda_code kda_supports(const kda_problem* problem, const kda_options* options) {
  return api::guarded([&] {
    if (problem == nullptr) return api::report(null("problem"));
    Problem wanted;
    Options how;
    if (Status status = api::to_cpp(problem, wanted); !status) return api::report(status);
    if (Status status = api::to_cpp(options, how); !status) return api::report(status);
    return api::report(supports(wanted, how));
  });
}

kda_code kda_plan_make(const kda_problem* problem, const kda_options* options, kda_plan** plan) {
  return kda_plan_make_all(&problem, 1, options, plan, nullptr);
}

kda_code kda_plan_make_all(const kda_problem* const* problems, size_t count,
                           const kda_options* options, kda_plan** plans, kda_code* codes) {
  const auto make_all = [&] {
    if (count == 0) return KDA_OK;
    if (plans == nullptr) return api::report(null("plan"));
    std::fill_n(plans, count, nullptr);
    // What is left of them where memory runs out below.
    if (codes != nullptr) std::fill_n(codes, count, KDA_DEVICE_ERROR);
    const auto refuse_all = [&](const Status& status) {
      const kda_code code = api::report(status);
      if (codes != nullptr) std::fill_n(codes, count, code);
      return code;
    };
    if (problems == nullptr) return refuse_all(null("problems"));
    Options how;
    if (Status status = api::to_cpp(options, how); !status) return refuse_all(status);

    // A struct that cannot be read fails by itself; the others are made together.
    std::vector<Status> read(count);
    std::vector<Problem> wanted;
    for (size_t i = 0; i < count; ++i) {
      Problem problem;
      read[i] = problems[i] == nullptr ? null("problem") : api::to_cpp(problems[i], problem);
      if (read[i]) wanted.push_back(problem);
    }
    std::vector<Result<Plan>> made = Plan::make_all(wanted, how);
    auto next = made.begin();
    kda_code first = KDA_OK;
    for (size_t i = 0; i < count; ++i) {
      if (read[i]) {
        Result<Plan>& plan = *next++;
        read[i] = plan.status();
        if (plan) plans[i] = new kda_plan(*std::move(plan));
      }
      if (codes != nullptr) codes[i] = static_cast<kda_code>(read[i].code());
      if (first == KDA_OK) first = api::report(read[i]);
    }
    return first;
  };
  return api::guarded(make_all);
}

void kda_plan_destroy(kda_plan* plan) { delete plan; }

kda_code kda_plan_problem(const kda_plan* plan, kda_problem* problem) {
  return api::guarded([&] {
    if (plan == nullptr) return api::report(null("plan"));
    if (problem == nullptr) return api::report(null("problem"));
    return api::report(api::to_c(plan->plan.problem(), problem));
  });
}

size_t kda_plan_workspace_bytes(const kda_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

kda_code kda_plan_run(const kda_plan* plan, const kda_forward* forward, void* workspace,
                      size_t workspace_bytes, struct CUstream_st* stream) {
  return api::guarded([&] {
    if (plan == nullptr) return api::report(null("plan"));
    if (forward == nullptr) return api::report(null("forward"));
    Forward tensors;
    if (Status status = api::to_cpp(forward, tensors); !status) return api::report(status);
    return api::report(plan->plan.run(tensors, workspace, workspace_bytes, stream));
  });
}

const char* kda_plan_describe(const kda_plan* plan) {
  if (plan == nullptr) return "";
  (void)api::guarded([&] {
    std::call_once(plan->described, [&] { plan->description = plan->plan.describe(); });
    return KDA_OK;
  });
  return plan->description.c_str();
}

kda_code kda_set_log(int32_t level, kda_log_sink sink, void* user) {
  return api::guarded([&] {
    if (level < 0 || level > api::last_of<LogLevel>) {
      return api::report({Code::invalid_argument, "level = " + std::to_string(level) +
                                                      "; kda_log_level has 0.." +
                                                      std::to_string(api::last_of<LogLevel>)});
    }
    LogSink each;
    if (sink != nullptr) {
      each = [sink, user](LogLevel at, std::string_view text) {
        sink(static_cast<int32_t>(at), std::string(text).c_str(), user);
      };
    }
    set_log(static_cast<LogLevel>(level), std::move(each));
    return KDA_OK;
  });
}

kda_code kda_add_bundle(const void* bundle, size_t bytes) {
  return api::guarded([&] {
    if (bundle == nullptr) return api::report(null("bundle"));
    return api::report(add_bundle({static_cast<const std::byte*>(bundle), bytes}));
  });
}

int32_t kda_version() { return KDA_VERSION; }

}  // extern "C"
