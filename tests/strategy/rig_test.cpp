// The harness of the GPU tests, tried without one: a driver whose device memory is the host's, and
// a plan that is the reference itself, right or wrong on purpose.
#include "support/rig.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "problem/shape.hpp"
#include "reference/dtype.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::load;
using reference::store;

namespace {

CUresult alloc(CUdeviceptr* out, std::size_t bytes) {
  *out = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return CUDA_SUCCESS;
}
CUresult release(CUdeviceptr at) { return std::free(reinterpret_cast<void*>(at)), CUDA_SUCCESS; }
CUresult upload(CUdeviceptr to, const void* from, std::size_t bytes) {
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), CUDA_SUCCESS;
}
CUresult download(void* to, CUdeviceptr from, std::size_t bytes) {
  return std::memcpy(to, reinterpret_cast<void*>(from), bytes), CUDA_SUCCESS;
}
CUresult fill(CUdeviceptr at, unsigned char byte, std::size_t bytes) {
  return std::memset(reinterpret_cast<void*>(at), byte, bytes), CUDA_SUCCESS;
}
CUresult version(int* out) { return *out = 12080, CUDA_SUCCESS; }
CUresult nothing() { return CUDA_SUCCESS; }

void* find_on_host(const char* name) {
  const std::string_view symbol = name;
  const auto is = [&](std::string_view call) { return symbol.substr(0, call.size()) == call; };
  if (is("cuMemAlloc")) return reinterpret_cast<void*>(alloc);
  if (is("cuMemFree")) return reinterpret_cast<void*>(release);
  if (is("cuMemcpyHtoD_")) return reinterpret_cast<void*>(upload);
  if (is("cuMemcpyDtoH_")) return reinterpret_cast<void*>(download);
  if (is("cuMemsetD8_")) return reinterpret_cast<void*>(fill);
  if (is("cuDriverGetVersion")) return reinterpret_cast<void*>(version);
  return reinterpret_cast<void*>(nothing);
}

struct HostDriver {
  HostDriver() { launch::replace_driver_for_tests(find_on_host); }
  ~HostDriver() { launch::replace_driver_for_tests(nullptr); }
};

// Reads and writes through a Forward's own pointers and strides, as a kernel would.
struct Element {
  const Problem& p;
  std::int64_t per_sequence;
  std::size_t at(const Strides& s, std::int64_t token, int head, int channel) const {
    return static_cast<std::size_t>(token / per_sequence * s.sequence +
                                    token % per_sequence * s.token + head * s.head + channel);
  }
};

reference::Inputs read(const Problem& p, const Forward& f, const reference::Tensors& tensors) {
  reference::Inputs in = reference::reference_inputs(tensors);
  const Element element{p, p.varlen ? std::max<std::int64_t>(1, f.tokens)
                                    : std::max<std::int64_t>(1, f.tokens / f.sequences)};
  const auto gather = [&](std::vector<double>& out, DType type, const void* data,
                          const Strides& strides, int heads, int channels) {
    std::size_t i = 0;
    for (std::int64_t t = 0; t < f.tokens; ++t)
      for (int h = 0; h < heads; ++h)
        for (int c = 0; c < channels; ++c)
          out[i++] = load(type, data, element.at(strides, t, h, c));
  };
  gather(in.q, p.qkv_type, f.q, f.q_strides, p.heads, p.key_dim);
  gather(in.k, p.qkv_type, f.k, f.k_strides, p.heads, p.key_dim);
  gather(in.v, p.qkv_type, f.v, f.v_strides, p.value_heads, p.value_dim);
  gather(in.g, p.gate_type, f.g, f.g_strides, p.value_heads, p.key_dim);
  gather(in.beta, p.beta_type, f.beta, f.beta_strides, p.value_heads, 1);
  for (std::size_t n = 0; n < in.cu_seqlens.size() && p.varlen; ++n)
    in.cu_seqlens[n] = p.cu_seqlens_type == Index::i32
                           ? static_cast<const std::int32_t*>(f.cu_seqlens)[n]
                           : static_cast<const std::int64_t*>(f.cu_seqlens)[n];
  return in;
}

void write(const Problem& p, const Forward& f, const reference::Outputs& out) {
  const Element element{p, p.varlen ? std::max<std::int64_t>(1, f.tokens)
                                    : std::max<std::int64_t>(1, f.tokens / f.sequences)};
  std::size_t i = 0;
  for (std::int64_t t = 0; t < f.tokens; ++t)
    for (int h = 0; h < p.value_heads; ++h)
      for (int c = 0; c < p.value_dim; ++c, ++i)
        if (!std::isnan(out.o[i]))
          store(p.qkv_type, f.o, element.at(f.o_strides, t, h, c), out.o[i]);
  if (!p.final_state) return;
  const std::size_t K = p.key_dim, V = p.value_dim;
  for (std::size_t s = 0; s < out.final_state.size(); ++s) {
    const std::size_t matrix = s / (K * V), c = s / V % K, j = s % V;
    const bool key_first = p.state_layout == StateLayout::key_first;
    store(p.state_type, f.final_state, matrix * K * V + (key_first ? c * V + j : j * K + c),
          out.final_state[s]);
  }
}

using Spoil = void (*)(const Problem&, const Forward&);

// What running the trial comes to, the outputs spoilt after the right ones were written.
std::string outcome(const Trial& given, Spoil spoil = nullptr) {
  const HostDriver host;
  const Trial trial = complete(given);
  const Gpu gpu;
  Truth truth(trial);
  Rig rig(gpu, trial, truth.tensors());
  const auto run = [&](const Forward& forward, void*, std::size_t, Stream) {
    Forward filled = forward;
    problem::fill_strides(trial.problem, filled);
    write(trial.problem, filled,
          reference::recurrence(read(trial.problem, filled, truth.tensors())));
    if (spoil != nullptr) spoil(trial.problem, filled);
    return Status();
  };
  const std::string failure = rig.run(run, 1000);
  return failure.empty() ? truth.judge(rig.outputs()) : failure;
}

float* floats(void* data) { return static_cast<float*>(data); }

}  // namespace

TEST_CASE("the rig lays out and collects what the reference says, in every layout") {
  const Layout layout =
      GENERATE(Layout::contiguous, Layout::heads_first, Layout::sliced, Layout::gapped);
  const char* type = GENERATE("bf16", "f16", "f32");
  const char* form = GENERATE("", "state=bf16 layout=key_first", "varlen=1 cu_seqlens=i32");
  Trial one = trial(all_types(type) + "H=1 HV=2 K=5 V=7 " + form, {6, 6, 6});
  one.layout = layout;
  one.misaligned = one.problem.varlen;
  CHECK(outcome(one) == "");
  one.in_place_state = true;
  CHECK(outcome(one) == "");
  one.problem.varlen = true;
  one.lengths = {0, 7, 1};
  one.tail = 3;
  CHECK(outcome(one) == "");
}

TEST_CASE("the rig notices what a kernel must not do") {
  Trial one = trial("qkv=f32 H=1 HV=1 K=4 V=4", {5});
  CHECK(outcome(one) == "");
  const auto fails_with = [&](Spoil spoil, const char* words) {
    CHECK_THAT(outcome(one, spoil), contains(words));
  };
  fails_with([](const Problem&, const Forward& f) { floats(f.o)[5 * 4] = 0; },
             "o: 0 bytes before and 4 bytes after were written");
  fails_with([](const Problem&, const Forward& f) { floats(f.o)[-1] = 0; },
             "o: 4 bytes before and 0 bytes after were written");
  fails_with(
      [](const Problem&, const Forward& f) {
        const_cast<float*>(static_cast<const float*>(f.q))[5 * 4] = 0;
      },
      "q: 0 bytes before");
  fails_with([](const Problem&, const Forward& f) { floats(f.final_state)[16] = 0; },
             "final_state: 0 bytes before");
  fails_with([](const Problem&, const Forward& f) { std::memset(floats(f.o) + 7, 0xff, 4); },
             "1 not finite, worst at 7");
  fails_with([](const Problem&, const Forward& f) { floats(f.o)[3] *= 1.01F; }, "o rel-L2");
  fails_with([](const Problem&, const Forward& f) { floats(f.final_state)[3] += 0.1F; },
             "state rel-L2");

  one.layout = Layout::gapped;
  fails_with([](const Problem&, const Forward& f) { floats(f.o)[4] = 0; },
             "elements between rows or past the last sequence were written");
  one.layout = Layout::contiguous;
  one.tail = 2;
  fails_with([](const Problem&, const Forward& f) { floats(f.o)[6 * 4] = 0; },
             "elements between rows or past the last sequence were written");
}

TEST_CASE("hard inputs may err as their dtype's own recurrence does, and no more") {
  Trial one = trial("qkv=bf16 g=f32 beta=f32 beta_logit=0", {300});
  one.inputs.keys = reference::KeyPattern::correlated;
  one.inputs.gate = reference::GatePattern::weak;
  one.inputs.beta = 1.9;
  Truth truth(complete(one));
  const reference::Outputs exact = truth.outputs();
  const double allowed = 1.5 * truth.rounded_errors().o.rel_l2;
  CHECK(allowed > 5e-3);
  const auto off_by = [&](double relative) {
    reference::Outputs x = exact;
    for (double& o : x.o) o *= 1 + relative;
    return truth.judge(x);
  };
  CHECK(off_by(0.95 * allowed) == "");
  CHECK(off_by(1.05 * allowed) != "");
}
