#include "bench/device_tensors.hpp"

#include <cstring>

#include "problem/problem.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"
#include "tools/fake_gpu.hpp"

using namespace kda;

namespace {

float at(const void* data, std::int64_t index) {
  float value = 0;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * 4, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("head-major tensors lie as kda_prefill_f32 takes them, and come back", "[tools]") {
  const test::FakeGpu device;  // its memory is the host's
  const measure::Gpu gpu(-1);
  constexpr int N = 2, T = 5, H = 3, K = 4;
  Problem wanted{.heads = H, .key_dim = K, .value_dim = 2, .max_tokens = N * T};
  wanted.max_sequences = N;
  wanted.qkv_type = wanted.gate_type = wanted.beta_type = DType::f32;
  wanted.wy_chunk = 16;
  const reference::Tensors host =
      reference::make_tensors(*problem::complete(wanted), N * T, {0, T, N * T});
  bench::DeviceTensors tensors(gpu, host, true);
  const Forward run = tensors.forward(0);

  for (int n = 0; n < N; ++n)
    for (int t = 0; t < T; ++t)
      for (int h = 0; h < H; ++h)
        for (int c = 0; c < K; ++c) {
          const std::int64_t token_major = ((n * T + t) * H + h) * K + c;
          const std::int64_t head_major = ((n * H + h) * T + t) * K + c;
          CHECK(at(run.q, head_major) == at(host.q.data(), token_major));
          CHECK(at(run.g, head_major) == at(host.g.data(), token_major));
          const Strides& s = run.q_strides;
          CHECK(n * s.sequence + t * s.token + h * s.head + c == head_major);
        }
  CHECK(run.beta_strides.head == T);
  CHECK(run.v_strides.head == T * 2);
  CHECK(run.w != nullptr);
  CHECK(run.u != nullptr);

  // v [N, H, T, V] written into o comes back as the host has v.
  std::memcpy(run.o, run.v, host.v.size());
  reference::Bytes o, state;
  tensors.download_outputs(o, state);
  CHECK(o == host.v);
}

TEST_CASE("committed tokens lie in the type of slot indices, the same for every set", "[tools]") {
  const test::FakeGpu device;
  const measure::Gpu gpu(-1);
  Problem wanted{.heads = 1, .key_dim = 4, .value_dim = 4, .max_tokens = 12};
  wanted.max_sequences = 3;
  wanted.final_state = wanted.committed_tokens = true;
  const auto counts = [&](Index type) {
    wanted.slot_index_type = type;
    const reference::Tensors host =
        reference::make_tensors(*problem::complete(wanted), 12, {0, 4, 8, 12});
    const bench::DeviceTensors tensors(gpu, host);
    const void* data = tensors.forward(tensors.sets() - 1).committed_tokens;
    REQUIRE(data != nullptr);
    for (int set = 0; set < tensors.sets(); ++set)
      CHECK(tensors.forward(set).committed_tokens == data);
    std::vector<std::int64_t> out;
    for (std::int64_t n = 0; n < 3; ++n) {
      out.push_back(type == Index::i32 ? static_cast<const std::int32_t*>(data)[n]
                                       : static_cast<const std::int64_t*>(data)[n]);
    }
    CHECK(out == host.committed_tokens);
    return out;
  };
  CHECK(counts(Index::i32) == counts(Index::i64));
}
