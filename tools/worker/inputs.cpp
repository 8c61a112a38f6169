#include "worker/inputs.hpp"

#include "measure/failure.hpp"
#include "reference/inputs.hpp"
#include "tune/small_problem.hpp"

namespace kda::worker {
namespace {

constexpr std::int64_t kLongTokens = 32768;  // over this, one head is verified at size
constexpr int kHeadsAtSize = 2;

Subject small_subject(const Subject& subject) {
  const tune::SmallProblem small = tune::small_problem(subject.problem);
  return {small.problem, small.lengths, subject.regime, subject.seed};
}

}  // namespace

ReferenceInputs::Tensors::Tensors(const measure::Gpu& gpu, const Subject& subject)
    : host(reference::make_tensors(
          subject.problem, subject.problem.max_tokens, reference::cu_seqlens_of(subject.lengths),
          {.gate = *reference::gate_regime(subject.regime), .seed = subject.seed})),
      device(gpu, host) {}

ReferenceInputs::ReferenceInputs(const measure::Gpu& gpu, const Subject& subject)
    : gpu_(gpu), small_(gpu, small_subject(subject)), large_(gpu, subject) {}

tune::Verdict ReferenceInputs::judge(Tensors& tensors, int heads, const tune::Enqueue& run) {
  if (!tensors.verifier) {
    tensors.verifier.emplace(tensors.host,
                             bench::spread_heads(tensors.host.problem.value_heads, heads));
  }
  tensors.device.poison_outputs();
  measure::must(run(tensors.device.forward(0)));
  gpu_.synchronize();
  reference::Bytes o, final_state;
  tensors.device.download_outputs(o, final_state);
  const bench::Verdict verdict = tensors.verifier->judge(o, final_state);
  return {verdict.right ? "" : verdict.why, verdict.o_error, verdict.state_error};
}

tune::Verdict ReferenceInputs::judge_small(const tune::Enqueue& run) {
  return judge(small_, small_.host.problem.value_heads, run);
}

tune::Verdict ReferenceInputs::judge_at_size(const tune::Enqueue& run) {
  const bool is_long = large_.host.problem.max_tokens > kLongTokens;
  return judge(large_, is_long ? 1 : kHeadsAtSize, run);
}

}  // namespace kda::worker
