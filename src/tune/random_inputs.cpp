#include "tune/random_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "measure/failure.hpp"
#include "measure/rotation.hpp"
#include "strategy/table.hpp"
#include "tune/element.hpp"
#include "tune/loaded.hpp"
#include "tune/small_problem.hpp"

namespace kda::tune {

namespace {

using measure::Buffer;
using measure::Gpu;
using measure::must;

using Bytes = std::vector<std::byte>;

// Elements that repeat over a tensor: a prime, so that rows of it differ.
constexpr std::size_t kPeriod = 131071;
constexpr unsigned char kPoison = 0xff;                    // NaN in every dtype
constexpr std::size_t kRows = 256;                         // tokens compared at size
constexpr std::int64_t kWhole = std::int64_t{1} << 40;     // all of them
constexpr std::size_t kMostState = std::size_t{64} << 20;  // bytes of it compared at size
// `recurrent` adds in f32 and rounds its output as every strategy does.
constexpr double allowed(DType type) {
  return type == DType::f32 ? 4e-5 : type == DType::f16 ? 2e-3 : 1e-2;
}

// What a tensor's numbers are drawn from.
struct Draw {
  double mean = 0, deviation = 1;  // normal ...
  double low = 0, high = 0;        // ... or uniform, where high > low ...
  double magnitude = 0;            // ... or of this size and any sign, where it is not 0
};

Buffer random_tensor(const Gpu& gpu, DType type, std::size_t count, const Draw& draw,
                     std::uint64_t seed) {
  Buffer buffer(gpu, count * bytes_of(type));
  const std::size_t period = std::min(count, kPeriod);
  Bytes host(period * bytes_of(type));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(static_cast<float>(draw.mean),
                                         static_cast<float>(draw.deviation));
  std::uniform_real_distribution<float> uniform(static_cast<float>(draw.low),
                                                static_cast<float>(draw.high));
  const auto either_sign = [&](bool negative) {
    return static_cast<float>(negative ? -draw.magnitude : draw.magnitude);
  };
  for (std::size_t i = 0; i < period; ++i) {
    const float x = draw.magnitude != 0    ? either_sign(random() % 2 != 0)
                    : draw.high > draw.low ? uniform(random)
                                           : normal(random);
    store(type, host.data(), i, x);
  }
  buffer.upload(host.data(), host.size());
  if (!host.empty()) buffer.tile(host.size());
  return buffer;
}

template <class T>
Buffer uploaded(const Gpu& gpu, const std::vector<T>& host) {
  Buffer buffer(gpu, host.size() * sizeof(T));
  buffer.upload(host.data(), buffer.bytes());
  return buffer;
}

Buffer uploaded(const Gpu& gpu, Index type, const std::vector<std::int64_t>& host) {
  if (type == Index::i64) return uploaded(gpu, host);
  return uploaded(gpu, std::vector<std::int32_t>(host.begin(), host.end()));
}

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// One problem's tensors.
struct Tensors {
  Tensors(const Gpu& gpu, const Problem& problem, const std::vector<std::int64_t>& lengths)
      : p(problem),
        sequences(static_cast<int>(lengths.size())),
        tokens(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) {
    const std::size_t T = size(tokens), H = size(p.heads), HV = size(p.value_heads);
    const std::size_t K = size(p.key_dim), V = size(p.value_dim);
    // Rows of length one wherever they begin, where the kernels do not make them so.
    const Draw rows = {.magnitude =
                           p.l2norm_qk ? 0 : 1 / std::sqrt(static_cast<double>(p.key_dim))};
    const Draw gate = p.gate == Gate::log_decay ? Draw{.low = -2, .high = 0} : Draw{};
    const Draw beta = p.beta_is_logit ? Draw{} : Draw{.low = 0.01, .high = 1};
    q = random_tensor(gpu, p.qkv_type, T * H * K, rows, 1);
    k = random_tensor(gpu, p.qkv_type, T * H * K, rows, 2);
    v = random_tensor(gpu, p.qkv_type, T * HV * V, {}, 3);
    g = random_tensor(gpu, p.gate_type, T * HV * K, gate, 4);
    b = random_tensor(gpu, p.beta_type, T * HV, beta, 5);
    if (p.gate == Gate::softplus || p.gate == Gate::bounded) {
      // On every other channel slow decays, so that the state matters.
      A_log = random_tensor(gpu, DType::f32, HV, {.low = 0, .high = 1}, 6);
      dt_bias = random_tensor(gpu, DType::f32, HV * K, {.mean = -3, .deviation = 3}, 7);
    }
    std::size_t states = size(sequences);
    if (p.state_pool) states = make_pool(gpu, lengths);
    states *= HV * K * V;
    if (p.initial_state || p.state_pool) {
      initial_state = random_tensor(gpu, p.state_type, states, {.deviation = 0.1}, 8);
    }
    if (p.final_state || p.state_pool) {
      final_state = Buffer(gpu, states * bytes_of(p.state_type));
    }
    if (p.committed_tokens) {
      std::vector<std::int64_t> some(lengths);
      for (std::size_t n = 0; n < some.size(); ++n) some[n] = std::int64_t(n) % (lengths[n] + 1);
      committed_tokens = uploaded(gpu, p.slot_index_type, some);
    }
    o = Buffer(gpu, T * HV * V * bytes_of(p.qkv_type));
    if (p.varlen) {
      std::vector<std::int64_t> ends{0};
      for (const std::int64_t each : lengths) ends.push_back(ends.back() + each);
      cu_seqlens = uploaded(gpu, p.cu_seqlens_type, ends);
    }
  }

  // Every sequence in slots of its own; answers how many there are.
  std::size_t make_pool(const Gpu& gpu, const std::vector<std::int64_t>& lengths) {
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const std::int64_t columns = p.draft_states ? std::clamp<std::int64_t>(longest, 1, 16) : 1;
    const std::int64_t kept = p.checkpoint_tokens > 0 ? longest / p.checkpoint_tokens : 0;
    const std::int64_t N = sequences;
    const auto table = [&](std::int64_t first, std::int64_t count) {
      std::vector<std::int64_t> numbers(size(count));
      std::iota(numbers.begin(), numbers.end(), first);
      return uploaded(gpu, p.slot_index_type, numbers);
    };
    indices = table(0, N * columns);
    pool.slots = N * (columns + kept);
    pool.indices = {indices.data(), static_cast<int>(columns), 0};
    if (p.checkpoint_tokens > 0) {
      checkpoints = table(N * columns, N * std::max<std::int64_t>(kept, 1));
      pool.checkpoints = {checkpoints.data(), static_cast<int>(std::max<std::int64_t>(kept, 1)), 0};
    }
    return size(pool.slots);
  }

  Forward forward() const {
    Forward run;
    run.tokens = tokens;
    run.sequences = sequences;
    run.cu_seqlens = cu_seqlens.data();
    run.q = q.data();
    run.k = k.data();
    run.v = v.data();
    run.g = g.data();
    run.beta = b.data();
    run.A_log = static_cast<const float*>(A_log.data());
    run.dt_bias = static_cast<const float*>(dt_bias.data());
    run.initial_state = p.initial_state ? initial_state.data() : nullptr;
    run.o = o.data();
    run.final_state = final_state.data();
    run.pool = pool;
    run.committed_tokens = committed_tokens.data();
    return run;
  }

  std::size_t bytes() const {
    return q.bytes() + k.bytes() + v.bytes() + g.bytes() + b.bytes() + o.bytes() +
           initial_state.bytes() + final_state.bytes();
  }

  Problem p;
  int sequences;
  std::int64_t tokens;  // of all sequences; of a dense run perhaps fewer than max_tokens
  StatePool pool;
  Buffer q, k, v, g, b, A_log, dt_bias, cu_seqlens, initial_state, o, final_state;
  Buffer indices, checkpoints, committed_tokens;
};

// Rows of o, and of the state, that are compared.
struct Outputs {
  Bytes o, state;
};

// rel-L2 of x against y; infinite where x is not finite.
double error_of(DType type, const Bytes& x, const Bytes& y) {
  double difference = 0, truth = 0;
  for (std::size_t i = 0; i < y.size() / bytes_of(type); ++i) {
    const double a = load(type, x.data(), i), b = load(type, y.data(), i);
    if (!std::isfinite(a)) return HUGE_VAL;
    difference += (a - b) * (a - b);
    truth += b * b;
  }
  if (difference == 0) return 0;
  return std::sqrt(difference / std::max(truth, 1e-30));
}

}  // namespace

struct RandomInputs::Impl {
  // One problem's tensors, how many rows of o are compared, and what `recurrent` makes of them,
  // once asked.
  struct Side {
    Tensors tensors;
    std::size_t rows;
    std::optional<Outputs> truth = std::nullopt;
  };

  Impl(const Gpu& gpu, const Problem& problem, cache::Cache& cache)
      : gpu(gpu), cache(cache), small_(tune::small_problem(problem)) {
    const std::vector<std::int64_t> lengths = usual_lengths(problem);
    sides.push_back({Tensors(gpu, small_.problem, small_.lengths), size(kWhole)});
    sides.push_back({Tensors(gpu, problem, lengths), kRows});
    const int wanted = measure::rotation(static_cast<double>(sides.back().tensors.bytes()),
                                         static_cast<double>(gpu.device().l2_bytes),
                                         static_cast<double>(gpu.free_bytes()));
    while (1 + static_cast<int>(others.size()) < wanted) others.emplace_back(gpu, problem, lengths);
    gpu.synchronize();
  }

  Outputs outputs(const Tensors& t, std::size_t rows) const {
    const std::size_t tokens = size(t.tokens);
    const std::size_t row = tokens == 0 ? 0 : t.o.bytes() / tokens;
    rows = std::min(rows, tokens);
    Outputs out;
    out.o.resize(rows * row);
    if (rows == tokens) {
      t.o.download(out.o.data(), out.o.size());
    } else {
      for (std::size_t i = 0; i < rows; ++i) {
        const std::size_t token = i * (tokens - 1) / (rows - 1);
        t.o.download(out.o.data() + i * row, row, token * row);
      }
    }
    out.state.resize(std::min(t.final_state.bytes(), kMostState));
    t.final_state.download(out.state.data(), out.state.size());
    return out;
  }

  Outputs run(Tensors& t, std::size_t rows, const Enqueue& enqueue) const {
    t.o.fill(kPoison);
    if (t.p.state_pool && t.p.initial_state) {
      t.final_state.copy_from(t.initial_state);  // slots that nothing names stay as they are
    } else {
      t.final_state.fill(t.p.state_pool ? 0 : kPoison);
    }
    must(enqueue(t.forward()));
    gpu.synchronize();
    return outputs(t, rows);
  }

  const Outputs& truth_of(Side& side) {
    Tensors& tensors = side.tensors;
    if (side.truth) return *side.truth;
    const strategy::Strategy* yardstick = strategy::find("recurrent");
    const Candidate candidate{yardstick->name, yardstick->defaults(tensors.p, gpu.device())};
    const Loaded loaded = must(load(candidate, tensors.p, gpu.device(), cache));
    const Buffer workspace(gpu, loaded.program.recipe.workspace_bytes);
    side.truth = run(tensors, side.rows, [&](const Forward& forward) {
      return tune::enqueue(loaded, forward, workspace.data(), gpu.stream());
    });
    return *side.truth;
  }

  Verdict judge(Side& side, const Enqueue& enqueue) {
    const Outputs& truth = truth_of(side);
    const Outputs out = run(side.tensors, side.rows, enqueue);
    const Problem& p = side.tensors.p;
    Verdict verdict;
    verdict.o_error = error_of(p.qkv_type, out.o, truth.o);
    verdict.state_error = error_of(p.state_type, out.state, truth.state);
    const double bound = allowed(p.qkv_type);
    if (!(verdict.o_error <= bound)) {
      verdict.why = fmt::format("o: rel-L2 {:.2e} against strategy recurrent, at most {:.0e}",
                                verdict.o_error, bound);
    } else if (!(verdict.state_error <= bound)) {
      verdict.why = fmt::format(
          "final_state: rel-L2 {:.2e} against strategy recurrent, at most "
          "{:.0e}",
          verdict.state_error, bound);
    }
    return verdict;
  }

  const Gpu& gpu;
  cache::Cache& cache;
  SmallProblem small_;
  std::vector<Side> sides;      // the small problem, the problem itself
  std::vector<Tensors> others;  // further sets of the latter
};

RandomInputs::RandomInputs(const measure::Gpu& gpu, const Problem& problem, cache::Cache& cache)
    : impl_(std::make_unique<Impl>(gpu, problem, cache)) {}

RandomInputs::~RandomInputs() = default;

int RandomInputs::sets() const { return 1 + static_cast<int>(impl_->others.size()); }

Forward RandomInputs::forward(int set) const {
  return set == 0 ? impl_->sides.back().tensors.forward() : impl_->others[size(set - 1)].forward();
}

const Problem& RandomInputs::small_problem() const { return impl_->small_.problem; }

Verdict RandomInputs::judge_small(const Enqueue& run) {
  return impl_->judge(impl_->sides.front(), run);
}

Verdict RandomInputs::judge_at_size(const Enqueue& run) {
  return impl_->judge(impl_->sides.back(), run);
}

}  // namespace kda::tune
