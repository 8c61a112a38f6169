#include "bench/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "reference/dtype.hpp"
#include "reference/error.hpp"
#include "reference/parallel.hpp"

namespace kda::bench {
namespace {

using reference::Error;

// The first element that is not finite; none: -1.  The outputs were NaN before the run.
std::int64_t first_unwritten(DType type, const reference::Bytes& data) {
  const auto count = static_cast<std::int64_t>(data.size() / reference::bytes_of(type));
  constexpr std::int64_t kBlock = 1 << 16;
  std::atomic<std::int64_t> first{count};
  reference::parallel_for((count + kBlock - 1) / kBlock, [&](std::int64_t block) {
    for (std::int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      if (std::isfinite(reference::load(type, data.data(), static_cast<std::size_t>(i)))) continue;
      for (std::int64_t seen = first; i < seen && !first.compare_exchange_weak(seen, i);) continue;
      return;
    }
  });
  return first == count ? -1 : first.load();
}

std::string unwritten(const char* name, DType type, const reference::Bytes& data,
                      std::int64_t columns) {
  const std::int64_t at = first_unwritten(type, data);
  if (at < 0) return {};
  return fmt::format("{}: element {} (row {}, channel {}) is not finite or was not written", name,
                     at, at / columns, at % columns);
}

// One head's share of [rows, heads, columns].
std::vector<double> head_of(const std::vector<double>& all, std::size_t head, std::size_t heads,
                            std::size_t columns) {
  std::vector<double> one;
  for (std::size_t at = head * columns; at < all.size(); at += heads * columns) {
    one.insert(one.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
               all.begin() + static_cast<std::ptrdiff_t>(at + columns));
  }
  return one;
}

struct Worst {
  double rel_l2 = 0;
  std::size_t head = 0;
};

Worst worst_head(const std::vector<double>& x, const std::vector<double>& y, std::size_t heads,
                 std::size_t columns) {
  Worst worst;
  for (std::size_t head = 0; head < heads; ++head) {
    const Error error =
        reference::error_of(head_of(x, head, heads, columns), head_of(y, head, heads, columns),
                            static_cast<std::int64_t>(columns));
    if (!(error.rel_l2 <= worst.rel_l2)) worst = {error.rel_l2, head};
  }
  return worst;
}

}  // namespace

std::vector<int> spread_heads(int value_heads, int count) {
  std::vector<int> heads;
  if (count == 1) return {value_heads - 1};
  count = std::min(count, value_heads);
  for (int i = 0; i < count; ++i)
    heads.push_back(count == 1 ? 0 : i * (value_heads - 1) / (count - 1));
  return heads;
}

Verifier::Verifier(const reference::Tensors& tensors, std::vector<int> heads)
    : tensors_(tensors),
      heads_(std::move(heads)),
      inputs_(reference::reference_inputs(tensors, heads_)),
      truth_(reference::recurrence(inputs_)) {}

const reference::Outputs& Verifier::allowed() {
  if (!rounded_) {
    rounded_ = reference::recurrence(inputs_, reference::Arithmetic::operands_rounded);
  }
  return *rounded_;
}

Verdict Verifier::judge(const reference::Bytes& o, const reference::Bytes& final_state) {
  const Problem& problem = tensors_.problem;
  const auto K = static_cast<std::size_t>(problem.key_dim);
  const auto V = static_cast<std::size_t>(problem.value_dim);
  Verdict verdict;
  verdict.why = unwritten("o", problem.qkv_type, o, problem.value_dim);
  if (verdict.why.empty() && !final_state.empty()) {
    verdict.why =
        unwritten("final_state", problem.state_type, final_state, static_cast<std::int64_t>(K * V));
  }
  const reference::Outputs written = reference::reference_outputs(
      tensors_, o.data(), final_state.empty() ? nullptr : final_state.data(), heads_);
  const std::size_t heads = heads_.size();

  // Beyond the stated bound a variant may still be as good as its operands allow (error.hpp).
  const auto judge_one = [&](const char* name, const std::vector<double>& x,
                             std::vector<double> reference::Outputs::*part, std::size_t columns,
                             double bound) {
    const std::vector<double>& y = truth_.*part;
    const Worst worst = worst_head(x, y, heads, columns);
    if (!(worst.rel_l2 <= bound) && verdict.why.empty()) {
      const Worst rounded = worst_head(allowed().*part, y, heads, columns);
      bound = std::max(bound, reference::kHardInputFactor * rounded.rel_l2);
      if (!(worst.rel_l2 <= bound)) {
        verdict.why = fmt::format("{}: rel-L2 {:.2e} on head {}, at most {:.2e} is right", name,
                                  worst.rel_l2, heads_[worst.head], bound);
      }
    }
    return worst.rel_l2;
  };
  verdict.o_error =
      judge_one("o", written.o, &reference::Outputs::o, V, reference::o_tolerance(problem));
  if (!final_state.empty()) {
    verdict.state_error =
        judge_one("final_state", written.final_state, &reference::Outputs::final_state, K * V,
                  reference::state_tolerance(problem));
  }
  verdict.right = verdict.why.empty();
  return verdict;
}

}  // namespace kda::bench
