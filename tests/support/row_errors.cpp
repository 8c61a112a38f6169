#include "support/row_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/dtype.hpp"
#include "reference/parallel.hpp"
#include "support/dice.hpp"
#include "support/shaken.hpp"

namespace kda::test {

namespace {

constexpr int kRuns = 8;  // of either kind
constexpr int kChunk = 64;

double distance(const double* x, const double* y, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(squares);
}

double length(const double* x, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += x[i] * x[i];
  return std::sqrt(squares);
}

// Each number up to two roundings off, log decays by a quarter of one.
reference::Inputs shaken(reference::Inputs in, double roundoff, Dice dice) {
  const auto shake = [&](std::vector<double>& all, double by) {
    for (double& x : all) x *= 1 + by * (2 * dice.uniform() - 1);
  };
  for (std::vector<double>* all : {&in.q, &in.k, &in.v}) shake(*all, 2 * roundoff);
  shake(in.g, roundoff / 4);
  shake(in.initial_state, roundoff);
  return in;
}

}  // namespace

RowErrors::Rows RowErrors::rows_of(std::vector<double> truth, std::int64_t columns) {
  const std::size_t rows = truth.size() / static_cast<std::size_t>(columns);
  return {std::move(truth), std::vector<double>(rows, 0.0)};
}

void RowErrors::add_squares(const std::vector<double>& x, Rows& to) {
  const auto columns = static_cast<std::int64_t>(x.size() / to.expected.size());
  for (std::size_t row = 0; row < to.expected.size(); ++row) {
    const std::size_t at = row * static_cast<std::size_t>(columns);
    const double off = distance(&x[at], &to.truth[at], columns);
    to.expected[row] += off * off;
  }
}

void RowErrors::finish(Rows& rows, int runs, double roundoff) {
  const auto columns = static_cast<std::int64_t>(rows.truth.size() / rows.expected.size());
  for (std::size_t row = 0; row < rows.expected.size(); ++row) {
    const double* truth = &rows.truth[row * static_cast<std::size_t>(columns)];
    double& expected = rows.expected[row];
    expected = std::sqrt(expected / runs) + roundoff * length(truth, columns);
  }
}

RowErrors::RowErrors(const reference::Tensors& tensors, std::uint64_t seed, double nothing)
    : problem_(tensors.problem), nothing_(nothing) {
  const reference::Inputs in = reference::reference_inputs(tensors);
  reference::Outputs truth = reference::recurrence(in);
  o_ = rows_of(std::move(truth.o), problem_.value_dim);
  state_ = rows_of(std::move(truth.final_state), problem_.value_dim);

  const double roundoff = reference::unit_roundoff(problem_.qkv_type);
  const ShakenChunks chunks(in, kChunk, roundoff);
  std::vector<reference::Outputs> runs(kRuns);
  reference::parallel_for(kRuns, [&](std::int64_t i) {
    runs[static_cast<std::size_t>(i)] = chunks.run(Dice(seed, 100 + static_cast<std::uint64_t>(i)));
  });
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    runs.push_back(reference::recurrence(shaken(in, roundoff, Dice(seed, 200 + i)),
                                         reference::Arithmetic::operands_rounded));
  }
  for (const reference::Outputs& run : runs) {
    add_squares(run.o, o_);
    add_squares(run.final_state, state_);
  }
  // What one kind alone has to expect counts in full.
  finish(o_, kRuns, roundoff);
  finish(state_, kRuns, roundoff);
}

RowError RowErrors::of_o(const reference::Outputs& out) const { return worst(out.o, o_, 1); }

RowError RowErrors::of_state(const reference::Outputs& out) const {
  return worst(out.final_state, state_, problem_.key_dim);
}

// a_head: rows of one head that follow each other.
RowError RowErrors::worst(const std::vector<double>& x, const Rows& rows, int a_head) const {
  const std::int64_t columns = problem_.value_dim;
  RowError out;
  std::int64_t at = 0;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(rows.expected.size()); ++row) {
    const double off = distance(&x[row * columns], &rows.truth[row * columns], columns);
    double ratio = off / (rows.expected[row] + nothing_);
    if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    if (ratio <= out.ratio) continue;
    out.ratio = ratio;
    at = row;
  }
  const std::int64_t heads = problem_.value_heads, first = at / a_head / heads;
  out.where = a_head == 1 ? fmt::format("token {}", first)
                          : fmt::format("state {}, channel {}", first, at % a_head);
  out.where += fmt::format(", head {}: off {:.3g} of {:.3g}, expected {:.3g}", at / a_head % heads,
                           distance(&x[at * columns], &rows.truth[at * columns], columns),
                           length(&rows.truth[at * columns], columns), rows.expected[at]);
  return out;
}

}  // namespace kda::test
