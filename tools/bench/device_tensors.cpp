#include "bench/device_tensors.hpp"

#include <fmt/format.h>

#include "bench/head_major.hpp"
#include "bench/pool.hpp"
#include "cli/failure.hpp"
#include "cli/subject.hpp"
#include "measure/rotation.hpp"
#include "reference/dtype.hpp"

namespace kda::bench {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in bf16, f16 and f32

template <class T>
Buffer uploaded(const Gpu& gpu, const std::vector<T>& host) {
  Buffer buffer(gpu, host.size() * sizeof(T));
  buffer.upload(host.data(), buffer.bytes());
  return buffer;
}

Buffer uploaded_cu_seqlens(const Gpu& gpu, const reference::Tensors& host) {
  if (!host.problem.varlen) return {};
  if (host.problem.cu_seqlens_type == Index::i64) return uploaded(gpu, host.cu_seqlens);
  return uploaded(gpu, std::vector<std::int32_t>(host.cu_seqlens.begin(), host.cu_seqlens.end()));
}

// Of w and u, whatever their rows past a sequence's end.
std::pair<std::size_t, std::size_t> wy_bytes(const Problem& problem, int sequences) {
  const std::int64_t length = problem.max_tokens / sequences;
  const std::int64_t chunks = (length + problem.wy_chunk - 1) / problem.wy_chunk;
  const std::size_t rows =
      static_cast<std::size_t>(chunks * problem.wy_chunk) * sequences * problem.value_heads;
  const std::size_t row = rows * reference::bytes_of(problem.qkv_type);
  return {row * problem.key_dim, row * problem.value_dim};
}

Buffer copied(const Gpu& gpu, const Buffer& from) {
  Buffer buffer(gpu, from.bytes());
  buffer.copy_from(from);
  return buffer;
}

}  // namespace

DeviceTensors::DeviceTensors(const Gpu& gpu, const reference::Tensors& host, bool head_major)
    : host_(host), problem_(host.problem), head_major_(head_major), sequences_(host.sequences()) {
  const double bytes = cli::floor_bytes(problem_);
  const auto free = static_cast<double>(gpu.free_bytes());
  const int count = measure::rotation(bytes, static_cast<double>(gpu.device().l2_bytes), free);
  if (count == 0) {
    throw cli::Failure(cli::kFailed, fmt::format("the tensors take {:.1f} GB; {:.1f} GB are free",
                                                 bytes / 1e9, free / 1e9));
  }
  Set first;
  first.q = uploaded(gpu, laid_out(host.q, problem_.heads));
  first.k = uploaded(gpu, laid_out(host.k, problem_.heads));
  first.v = uploaded(gpu, laid_out(host.v, problem_.value_heads));
  first.g = uploaded(gpu, laid_out(host.g, problem_.value_heads));
  first.beta = uploaded(gpu, laid_out(host.beta, problem_.value_heads));
  first.A_log = uploaded(gpu, host.A_log);
  first.dt_bias = uploaded(gpu, host.dt_bias);
  first.cu_seqlens = uploaded_cu_seqlens(gpu, host);
  if (problem_.state_pool) {
    slots_ = scattered_slots(host);
    indices_ = uploaded(gpu, index_bytes(problem_, slots_.indices));
    checkpoints_ = uploaded(gpu, index_bytes(problem_, slots_.checkpoints));
    pool_at_first_ = uploaded(gpu, pool_of(host, slots_));
    first.initial_state = copied(gpu, pool_at_first_);
  } else {
    first.initial_state = uploaded(gpu, host.initial_state);
  }
  committed_tokens_ = uploaded(gpu, index_bytes(problem_, host.committed_tokens));
  first.o = Buffer(gpu, host.v.size());
  const std::size_t states = static_cast<std::size_t>(sequences_) * problem_.value_heads *
                             problem_.key_dim * problem_.value_dim;
  first.final_state = Buffer(gpu, problem_.final_state && !problem_.state_pool
                                      ? states * reference::bytes_of(problem_.state_type)
                                      : 0);
  if (problem_.wy_chunk > 0) {
    const auto [w, u] = wy_bytes(problem_, sequences_);
    first.w = Buffer(gpu, w);
    first.u = Buffer(gpu, u);
  }
  sets_.push_back(std::move(first));
  while (sets() < count) {
    const Set& from = sets_.front();
    sets_.push_back({copied(gpu, from.q), copied(gpu, from.k), copied(gpu, from.v),
                     copied(gpu, from.g), copied(gpu, from.beta), copied(gpu, from.A_log),
                     copied(gpu, from.dt_bias), copied(gpu, from.cu_seqlens),
                     copied(gpu, from.initial_state), Buffer(gpu, from.o.bytes()),
                     Buffer(gpu, from.final_state.bytes()), Buffer(gpu, from.w.bytes()),
                     Buffer(gpu, from.u.bytes())});
  }
  gpu.synchronize();
}

Forward DeviceTensors::forward(int set) const {
  const Set& from = sets_[static_cast<std::size_t>(set)];
  Forward run;
  run.tokens = problem_.max_tokens;
  run.sequences = sequences_;
  run.cu_seqlens = from.cu_seqlens.data();
  run.q = from.q.data();
  run.k = from.k.data();
  run.v = from.v.data();
  run.g = from.g.data();
  run.beta = from.beta.data();
  run.A_log = static_cast<const float*>(from.A_log.data());
  run.dt_bias = static_cast<const float*>(from.dt_bias.data());
  run.initial_state = from.initial_state.data();
  run.o = from.o.data();
  run.final_state = from.final_state.data();
  run.w = from.w.data();
  run.u = from.u.data();
  run.committed_tokens = committed_tokens_.data();
  if (head_major_) {
    run.q_strides = run.k_strides = strides(problem_.heads, problem_.key_dim);
    run.g_strides = strides(problem_.value_heads, problem_.key_dim);
    run.v_strides = run.o_strides = strides(problem_.value_heads, problem_.value_dim);
    run.beta_strides = strides(problem_.value_heads, 1);
  }
  if (problem_.state_pool) {
    run.pool = state_pool();
    run.final_state = problem_.final_state ? from.initial_state.data() : nullptr;
    if (!problem_.initial_state) run.initial_state = nullptr;
  }
  return run;
}

StatePool DeviceTensors::state_pool() const {
  StatePool pool;
  pool.slots = slots_.slots;
  pool.indices = {indices_.data(), slots_.columns, 0};
  if (problem_.checkpoint_tokens > 0)
    pool.checkpoints = {checkpoints_.data(), slots_.checkpoint_columns, 0};
  return pool;
}

reference::Bytes DeviceTensors::laid_out(const reference::Bytes& host, int heads) const {
  if (!head_major_) return host;
  const auto N = static_cast<std::size_t>(sequences_);
  return swapped(host, N, static_cast<std::size_t>(problem_.max_tokens) / N,
                 static_cast<std::size_t>(heads));
}

reference::Bytes DeviceTensors::as_host_has(const reference::Bytes& device, int heads) const {
  if (!head_major_) return device;
  const auto N = static_cast<std::size_t>(sequences_);
  return swapped(device, N, static_cast<std::size_t>(heads),
                 static_cast<std::size_t>(problem_.max_tokens) / N);
}

Strides DeviceTensors::strides(int heads, int channels) const {
  const std::int64_t head = problem_.max_tokens / sequences_ * channels;
  return {heads * head, channels, head};
}

void DeviceTensors::set_dt_bias(const std::vector<float>& dt_bias) {
  for (Set& set : sets_) set.dt_bias.upload(dt_bias.data(), set.dt_bias.bytes());
}

void DeviceTensors::poison_outputs() {
  sets_.front().o.fill(kPoison);
  sets_.front().final_state.fill(kPoison);
  if (problem_.state_pool) sets_.front().initial_state.copy_from(pool_at_first_);
}

void DeviceTensors::download_outputs(reference::Bytes& o, reference::Bytes& final_state) const {
  const Set& from = sets_.front();
  o.resize(from.o.bytes());
  final_state.resize(from.final_state.bytes());
  from.o.download(o.data(), o.size());
  o = as_host_has(o, problem_.value_heads);
  if (problem_.state_pool && problem_.final_state) {
    reference::Bytes pool(from.initial_state.bytes());
    from.initial_state.download(pool.data(), pool.size());
    final_state = final_states(host_, slots_, pool);
    return;
  }
  from.final_state.download(final_state.data(), final_state.size());
}

}  // namespace kda::bench
