// Offsets past 32 bits: by strides, and by the sheer size of a run.
#include <algorithm>
#include <cstring>

#include "reference/dtype.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::Bytes;

namespace {

constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 1024;  // elements

enum class Axis { sequence, token, head };

// All tensors of a dense run side by side in one block, `far` from the first to the last place of
// the axis; the rows between are nobody's.
class FarTensors {
 public:
  FarTensors(const Gpu& gpu, const reference::Tensors& tensors, Axis axis, std::int64_t far)
      : gpu_(gpu),
        tensors_(tensors),
        axis_(axis),
        far_(far / 8 * 8),
        element_(static_cast<std::int64_t>(reference::bytes_of(tensors.problem.qkv_type))),
        block_(gpu, static_cast<std::size_t>((far_ + far_ / 8 + kTensors * spacing()) * element_)),
        before_(gpu, tensors.initial_state.size()),
        after_(gpu, tensors.initial_state.size()) {
    const Problem& p = tensors.problem;
    before_.upload(tensors.initial_state.data());
    forward_.tokens = tensors.tokens;
    forward_.sequences = tensors.sequences();
    forward_.q = put(0, tensors.q, p.heads, p.key_dim, forward_.q_strides);
    forward_.k = put(1, tensors.k, p.heads, p.key_dim, forward_.k_strides);
    forward_.v = put(2, tensors.v, p.value_heads, p.value_dim, forward_.v_strides);
    forward_.g = put(3, tensors.g, p.value_heads, p.key_dim, forward_.g_strides);
    forward_.beta = put(4, tensors.beta, p.value_heads, 1, forward_.beta_strides);
    // As nothing but NaN until it is written.
    const Bytes nothing(tensors.v.size(), std::byte{kPoison});
    forward_.o = put(5, nothing, p.value_heads, p.value_dim, forward_.o_strides);
    forward_.initial_state = before_.data();
    forward_.final_state = after_.data();
  }

  const Forward& forward() const { return forward_; }

  reference::Outputs outputs() const {
    const Problem& p = tensors_.problem;
    Bytes o(tensors_.v.size());
    each_row(5, p.value_heads, p.value_dim, forward_.o_strides,
             [&](CUdeviceptr at, std::size_t row, std::size_t bytes) {
               must(gpu_.driver().MemcpyDtoH(&o[row], at, bytes), "cuMemcpyDtoH");
             });
    const Bytes state = after_.download();
    return reference::reference_outputs(tensors_, o.data(), state.data());
  }

  std::string damage() const { return block_.canary_damage() + after_.canary_damage(); }

 private:
  static constexpr std::int64_t kTensors = 6;

  // More elements than any one tensor has, in whole 256 bytes.
  std::int64_t spacing() const {
    const Problem& p = tensors_.problem;
    const std::int64_t most = tensors_.tokens * p.value_heads * std::max(p.key_dim, p.value_dim);
    return (most + 255) / 256 * 256;
  }

  std::int64_t row_tokens() const { return tensors_.tokens / tensors_.sequences(); }

  Strides strides_of(std::int64_t heads, std::int64_t channels) const {
    const std::int64_t step = far_ / (row_tokens() - 1) / 8 * 8 + 8;
    switch (axis_) {
      case Axis::sequence:
        return {far_, heads * channels, channels};
      case Axis::token:
        return {heads * channels, step, channels};
      case Axis::head:
        break;
    }
    return {row_tokens() * channels, channels, far_};
  }

  template <class Row>
  void each_row(int slot, int heads, int channels, const Strides& strides, const Row& row) const {
    const std::int64_t bytes = channels * element_;
    const auto base = reinterpret_cast<CUdeviceptr>(block_.data());
    std::size_t contiguous = 0;
    for (std::int64_t token = 0; token < tensors_.tokens; ++token)
      for (int head = 0; head < heads; ++head, contiguous += static_cast<std::size_t>(bytes)) {
        const std::int64_t at = slot * spacing() + token / row_tokens() * strides.sequence +
                                token % row_tokens() * strides.token + head * strides.head;
        row(base + static_cast<CUdeviceptr>(at * element_), contiguous,
            static_cast<std::size_t>(bytes));
      }
  }

  void* put(int slot, const Bytes& values, int heads, int channels, Strides& strides) const {
    strides = strides_of(heads, channels);
    each_row(slot, heads, channels, strides,
             [&](CUdeviceptr at, std::size_t row, std::size_t bytes) {
               must(gpu_.driver().MemcpyHtoD(at, &values[row], bytes), "cuMemcpyHtoD");
             });
    return static_cast<std::byte*>(block_.data()) + slot * spacing() * element_;
  }

  const Gpu& gpu_;
  const reference::Tensors& tensors_;
  Axis axis_;
  std::int64_t far_, element_;
  DeviceMemory block_, before_, after_;
  Forward forward_;
};

std::string run_far(const Gpu& gpu, Truth& truth, Axis axis, std::int64_t far, const Rig::Run& run,
                    std::size_t workspace_bytes) {
  const FarTensors tensors(gpu, truth.tensors(), axis, far);
  const DeviceMemory workspace(gpu, workspace_bytes);
  gpu.synchronize();
  if (const Status s = run(tensors.forward(), workspace.data(), workspace_bytes, gpu.stream()); !s)
    return s.message();
  gpu.synchronize();
  const std::string failure = truth.judge(tensors.outputs());
  return failure.empty() ? tensors.damage() : failure;
}

// Empty, or why the device will not do.
std::string why_not(const Gpu& gpu, std::size_t bytes) {
  std::size_t free = 0, total = 0;
  must(gpu.driver().MemGetInfo(&free, &total), "cuMemGetInfo");
  if (free >= bytes) return {};
  return "needs " + std::to_string(bytes >> 30) + " GiB of free device memory, there are " +
         std::to_string(free >> 30);
}

// A run whose v, g and o, and what a strategy keeps of them, have more than 2^31 elements each.
// The value heads read overlapping rows of v and g, so that the inputs stay small.
constexpr std::int64_t kTokens = 1 << 18;
constexpr int kHeads = 66, kDim = 128, kHeadStep = 8;
constexpr int kRow = 6 * kDim;  // elements of v and g a token
constexpr int kBetaRow = 6;
static_assert(kTokens * kHeads * kDim > std::int64_t{1} << 31);
static_assert((kHeads - 1) * kHeadStep + kDim <= kRow);

// What two of its heads compute, as a problem of their own.
reference::Tensors two_heads(const reference::Tensors& all, const int (&heads)[2]) {
  reference::Tensors two = all;
  two.problem.value_heads = 2;
  const std::size_t element = reference::bytes_of(all.problem.qkv_type);
  const auto gather = [&](const Bytes& from, Bytes& to, int row, int step, int channels) {
    const std::size_t bytes = static_cast<std::size_t>(channels) * element;
    to.resize(static_cast<std::size_t>(kTokens) * 2 * bytes);
    for (std::int64_t t = 0; t < kTokens; ++t)
      for (int i = 0; i < 2; ++i)
        std::memcpy(&to[static_cast<std::size_t>(t * 2 + i) * bytes],
                    &from[static_cast<std::size_t>(t * row + heads[i] * step) * element], bytes);
  };
  gather(all.v, two.v, kRow, kHeadStep, kDim);
  gather(all.g, two.g, kRow, kHeadStep, kDim);
  gather(all.beta, two.beta, kBetaRow, 1, 1);
  return two;
}

}  // namespace

TEST_CASE("strides past 32 bits", "[gpu]") {
  if (!on_device()) return;
  const Gpu gpu;
  if (const std::string reason = why_not(gpu, std::size_t{12} << 30); !reason.empty()) {
    WARN("skipped: " << reason);
    return;
  }
  int ran = 0;
  for (const char* type : kTypes) {
    const Trial one = complete(trial(all_types(type) + "K=128 gate=log_decay", {70, 70}));
    Truth truth(one);
    for (const Variant& variant : every_strategy()) {
      Options options;
      options.strategy = variant.strategy;
      const Result<Plan> plan = Plan::make(one.problem, options);
      if (!plan && plan.status().code() == Code::unsupported) continue;
      INFO(variant.strategy << " | " << to_text(one) << ": " << plan.status().message());
      REQUIRE(plan);
      const auto run = [&](const Forward& forward, void* workspace, std::size_t bytes,
                           Stream stream) { return plan->run(forward, workspace, bytes, stream); };
      for (const Axis axis : {Axis::sequence, Axis::token, Axis::head}) {
        INFO("axis " << static_cast<int>(axis));
        CHECK(run_far(gpu, truth, axis, kFar, run, plan->workspace_bytes()) == "");
        ++ran;
      }
    }
  }
  CHECK(ran >= 2 * 3 * 3);  // `recurrent` and `chunk` serve every type
}

TEST_CASE("more than 2^31 elements in one run", "[gpu]") {
  if (!on_device()) return;
  const Gpu gpu;
  if (const std::string reason = why_not(gpu, std::size_t{24} << 30); !reason.empty()) {
    WARN("skipped: " << reason);
    return;
  }
  Trial one = trial("H=1 HV=6 K=128 V=128 gate=log_decay h0=0", {kTokens});
  one.inputs.gate = reference::GatePattern::mixed;
  one = complete(one);
  const reference::Tensors tensors = reference::make_tensors(
      one.problem, kTokens, reference::cu_seqlens_of(one.lengths), one.inputs);
  constexpr int kChecked[] = {0, kHeads - 1};
  // The last tokens' last heads read past the end of [T, 6].
  reference::Tensors padded = tensors;
  padded.beta.insert(padded.beta.end(), tensors.beta.begin(),
                     tensors.beta.begin() + kHeads * std::ptrdiff_t{2});
  const reference::Tensors two = two_heads(padded, kChecked);
  const reference::Outputs truth = reference::recurrence(reference::reference_inputs(two));

  const auto upload = [&](const Bytes& bytes) {
    DeviceMemory memory(gpu, bytes.size());
    memory.upload(bytes.data());
    return memory;
  };
  const DeviceMemory q = upload(padded.q), k = upload(padded.k), v = upload(padded.v),
                     g = upload(padded.g), beta = upload(padded.beta);
  constexpr std::size_t kHeadBytes = std::size_t{kTokens} * kDim * 2;
  constexpr std::size_t kStateBytes = std::size_t{kDim} * kDim * 4;
  DeviceMemory o(gpu, kHeads * kHeadBytes), state(gpu, kHeads * kStateBytes);
  Forward forward{.tokens = kTokens};
  forward.q = q.data();
  forward.k = k.data();
  forward.v = v.data();
  forward.g = g.data();
  forward.beta = beta.data();
  forward.o = o.data();
  forward.final_state = state.data();
  forward.v_strides = forward.g_strides = {0, kRow, kHeadStep};
  forward.beta_strides = {0, kBetaRow, 1};
  forward.o_strides = {0, kDim, kTokens * kDim};  // a head's rows together, to fetch two heads

  Problem problem = one.problem;
  problem.value_heads = kHeads;
  for (const Variant& variant : every_strategy()) {
    Options options;
    options.strategy = variant.strategy;
    const Result<Plan> plan = Plan::make(problem, options);
    INFO(variant.strategy << ": " << plan.status().message());
    REQUIRE(plan);
    o.poison();
    state.poison();
    const DeviceMemory workspace(gpu, plan->workspace_bytes());
    gpu.synchronize();
    const Status status =
        plan->run(forward, workspace.data(), plan->workspace_bytes(), gpu.stream());
    CHECK(status.message() == "");
    gpu.synchronize();

    Bytes both(2 * kHeadBytes), states(2 * kStateBytes), head(kHeadBytes);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto from = [&](const DeviceMemory& memory, std::size_t bytes) {
        return reinterpret_cast<CUdeviceptr>(memory.data()) +
               static_cast<std::size_t>(kChecked[i]) * bytes;
      };
      must(gpu.driver().MemcpyDtoH(head.data(), from(o, kHeadBytes), kHeadBytes), "o");
      must(gpu.driver().MemcpyDtoH(&states[i * kStateBytes], from(state, kStateBytes), kStateBytes),
           "state");
      constexpr std::size_t row = kDim * 2;
      for (std::size_t t = 0; t < kTokens; ++t)
        std::memcpy(&both[(t * 2 + i) * row], &head[t * row], row);
    }
    const reference::Outputs out = reference::reference_outputs(two, both.data(), states.data());
    const reference::Errors errors = reference::errors_of(two.problem, out, truth);
    INFO("o " << to_text(errors.o) << "; state " << to_text(errors.state));
    CHECK(errors.o.not_finite + errors.state.not_finite == 0);
    CHECK(errors.o.rel_l2 <= reference::o_tolerance(two.problem));
    CHECK(errors.state.rel_l2 <= reference::state_tolerance(two.problem));
    CHECK(o.canary_damage() + state.canary_damage() + workspace.canary_damage() == "");
  }
}
