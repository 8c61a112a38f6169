#include "bench/measure.hpp"

#include <algorithm>

#include "cli/failure.hpp"
#include "reference/inputs.hpp"

namespace kda::bench {
namespace {

constexpr std::int64_t kLongTokens = 32768;  // over this, one head is verified
constexpr std::int64_t kPeriod = 32749;      // a prime: no chunk sees the same tokens again soon
constexpr unsigned char kWorkspacePoison =
    0xff;  // a plan may not count on its workspace's contents

}  // namespace

Bench::Bench(const Gpu& gpu, const Request& request, const Subject& subject)
    : gpu_(gpu), request_(request), subject_(subject) {
  const kda::Options options{.device = gpu.device().ordinal, .cache_dir = request.cache_dir};
  for (const Wanted& wanted : wanted_variants(request.strategies, request.tunings)) {
    Variant& variant = variants_.emplace_back();
    variant.wanted = wanted;
    // Before any plan of this problem holds its kernels loaded.
    if (request.compile_times && !request.profile) {
      time_the_making(subject.problem, options, variant);
    }
  }
  std::size_t workspace = 0;
  for (Variant& variant : variants_) {
    make_plan(subject.problem, options, variant);
    if (variant.plan) workspace = std::max(workspace, variant.plan->workspace_bytes());
  }
  workspace_ = Buffer(gpu, workspace);
}

void Bench::enter(const std::string& regime) {
  reference::InputSpec spec;
  spec.gate = *reference::gate_regime(regime);
  spec.seed = request_.seed;
  spec.beta = request_.beta;
  spec.period = kPeriod;
  const Problem& problem = subject_.problem;
  if (tensors_ && !host_.dt_bias.empty()) {
    Problem parameters = problem;
    parameters.initial_state = false;
    host_.dt_bias = make_tensors(parameters, 0, {0, 0}, spec).dt_bias;
    tensors_->set_dt_bias(host_.dt_bias);
    return;
  }
  tensors_.reset();
  host_ = make_tensors(problem, problem.max_tokens, subject_.cu_seqlens, spec);
  tensors_ = std::make_unique<DeviceTensors>(gpu_, host_, subject_.head_major);
}

std::vector<Measurement> Bench::measure(const Subject& subject) {
  std::vector<Measurement> measurements = verify(subject);
  std::vector<Call> calls;
  std::vector<Measurement*> timed;
  for (Measurement& m : measurements) {
    if (!m.verdict || !m.verdict->right) continue;
    calls.push_back(call_of(*m.variant));
    timed.push_back(&m);
  }
  const int sets = tensors_->sets();
  const measure::GraphSettings settings{
      .sets = sets, .calls = request_.calls, .repeats = request_.repeats};
  const std::vector<GpuTime> times = measure::graph_times(gpu_, calls, settings);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    timed[i]->sets = sets;
    timed[i]->gpu = times[i];
    timed[i]->host = host_time(gpu_, calls[i], sets, times[i].summary.median, request_.quick);
  }
  return measurements;
}

std::vector<Measurement> Bench::run_once(const Subject& subject) {
  std::vector<Measurement> measurements;
  for (const Variant& variant : variants_) {
    measurements.push_back({.subject = &subject, .variant = &variant});
    if (!variant.plan) continue;
    measurements.back().skipped = kRunOnce;
    call_of(variant)(0);
    gpu_.synchronize();
  }
  return measurements;
}

Call Bench::call_of(const Variant& variant) {
  std::vector<Forward> runs;
  for (int set = 0; set < tensors_->sets(); ++set) runs.push_back(tensors_->forward(set));
  return [this, &plan = *variant.plan, runs = std::move(runs)](int set) {
    const Status status = plan.run(runs[static_cast<std::size_t>(set)], workspace_.data(),
                                   workspace_.bytes(), gpu_.stream());
    if (!status.ok()) cli::must(status);
  };
}

std::vector<Measurement> Bench::verify(const Subject& subject) {
  const bool is_long = subject.problem.max_tokens > kLongTokens;
  const std::vector<int> heads =
      spread_heads(subject.problem.value_heads, is_long ? 1 : request_.heads);
  Verifier verifier(host_, heads);
  std::vector<Measurement> measurements;
  reference::Bytes o, final_state;
  for (const Variant& variant : variants_) {
    Measurement& m = measurements.emplace_back();
    m.subject = &subject;
    m.variant = &variant;
    if (!variant.plan) continue;
    tensors_->poison_outputs();
    workspace_.fill(kWorkspacePoison);
    call_of(variant)(0);
    gpu_.synchronize();
    tensors_->download_outputs(o, final_state);
    m.verdict = verifier.judge(o, final_state);
    m.heads_verified = static_cast<int>(heads.size());
  }
  return measurements;
}

}  // namespace kda::bench
