#include "support/pool_rig.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "problem/problem.hpp"
#include "reference/dtype.hpp"
#include "reference/error.hpp"

namespace kda::test {

using reference::Slots;

namespace {

std::string list(const char* name, const std::vector<std::int64_t>& values) {
  if (values.empty()) return {};
  std::string text = std::string(" ") + name + "=";
  for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 12); ++i)
    text += (i > 0 ? "," : "") + std::to_string(values[i]);
  return text + (values.size() > 12 ? ",..." : "");
}

std::size_t slot_bytes(const Problem& p) {
  return static_cast<std::size_t>(problem::slot_elements(p)) * reference::bytes_of(p.state_type);
}

std::size_t table_bytes(const Problem& p, std::size_t rows, std::size_t columns, int row_gap) {
  return rows * (columns + row_gap) * (p.slot_index_type == Index::i32 ? 4 : 8);
}

}  // namespace

PoolTrial complete(PoolTrial trial) {
  trial.trial = complete(trial.trial);
  return trial;
}

std::string to_text(const PoolTrial& trial) {
  const Slots& s = trial.slots;
  std::string text = to_text(trial.trial) + " | " + std::to_string(s.slots) + " slots, " +
                     std::to_string(s.columns) + " columns" + list("indices", s.indices) +
                     list("initial", s.initial_indices) + list("accepted", s.num_accepted_tokens) +
                     list("checkpoints", s.checkpoints);
  if (trial.gap > 0) text += " gap=" + std::to_string(trial.gap);
  if (trial.row_gap > 0) text += " row gap=" + std::to_string(trial.row_gap);
  if (trial.apart) text += " final pool apart";
  return text;
}

PoolRig::PoolRig(const Gpu& gpu, const PoolTrial& trial)
    : gpu_(gpu), trial_(trial), truth_(trial.trial), rig_(gpu, trial.trial, truth_.tensors()) {
  const Problem& p = trial_.trial.problem;
  const Slots& s = trial_.slots;
  const std::size_t element = reference::bytes_of(p.state_type);
  const std::size_t stride = slot_bytes(p) + trial_.gap * element;
  const std::size_t misalignment = trial_.trial.misaligned * element;
  const std::size_t bytes = static_cast<std::size_t>(s.slots) * stride;
  pool_ = DeviceMemory(gpu, bytes, misalignment);
  if (trial_.apart) final_pool_ = DeviceMemory(gpu, bytes, misalignment);
  const std::size_t rows = trial_.trial.lengths.size();
  indices_ = DeviceMemory(gpu, table_bytes(p, rows, s.columns, trial_.row_gap));
  initial_indices_ = DeviceMemory(gpu, table_bytes(p, rows, 1, 0));
  accepted_ = DeviceMemory(gpu, table_bytes(p, rows, 1, 0));
  checkpoints_ = DeviceMemory(gpu, table_bytes(p, rows, s.checkpoint_columns, trial_.row_gap));

  forward_ = rig_.forward();
  if (p.initial_state) forward_.initial_state = pool_.data();
  if (p.final_state) forward_.final_state = trial_.apart ? final_pool_.data() : pool_.data();
  StatePool& pool = forward_.pool;
  pool.slots = s.slots;
  pool.stride = trial_.gap > 0 ? static_cast<std::int64_t>(stride / element) : 0;
  pool.indices = {indices_.data(), s.columns, trial_.row_gap > 0 ? s.columns + trial_.row_gap : 0};
  if (!s.initial_indices.empty()) pool.initial_indices = initial_indices_.data();
  if (!s.num_accepted_tokens.empty()) pool.num_accepted_tokens = accepted_.data();
  if (p.checkpoint_tokens > 0) {
    pool.checkpoints = {checkpoints_.data(), s.checkpoint_columns,
                        trial_.row_gap > 0 ? s.checkpoint_columns + trial_.row_gap : 0};
  }
  change(trial.slots);
}

void PoolRig::change(const Slots& slots) {
  trial_.slots = slots;
  expected_.reset();
  const Problem& p = trial_.trial.problem;
  upload_table(indices_, slots.indices, slots.columns);
  upload_table(initial_indices_, slots.initial_indices, 1);
  upload_table(accepted_, slots.num_accepted_tokens, 1);
  upload_table(checkpoints_, slots.checkpoints, slots.checkpoint_columns);
  // Sequence n's initial state lies where it starts; the first of several that start there.
  const std::size_t state = slot_bytes(p);
  before_.assign(static_cast<std::size_t>(slots.slots) * state, std::byte{kPoison});
  for (int n = truth_.tensors().sequences() - 1; n >= 0; --n) {
    const std::int64_t start = reference::start_of(p, slots, n);
    if (start >= 0)
      std::memcpy(&before_[start * state], &truth_.tensors().initial_state[n * state], state);
  }
  reset();
}

void PoolRig::upload_table(DeviceMemory& memory, const std::vector<std::int64_t>& values,
                           int columns) {
  if (values.empty() || columns == 0) return;
  std::vector<std::byte> bytes(memory.bytes(), std::byte{0x7f});  // a gap read is a slot far away
  const bool narrow = trial_.trial.problem.slot_index_type == Index::i32;
  const std::size_t element = narrow ? 4 : 8;
  const std::size_t rows = values.size() / columns;
  const std::size_t stride = bytes.size() / element / rows;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto narrowed = static_cast<std::int32_t>(values[i]);
    const void* from = narrow ? static_cast<const void*>(&narrowed) : &values[i];
    std::memcpy(&bytes[(i / columns * stride + i % columns) * element], from, element);
  }
  memory.upload(bytes.data());
}

std::vector<std::byte> PoolRig::placed_pool() const {
  const std::size_t state = slot_bytes(trial_.trial.problem);
  std::vector<std::byte> placed(pool_.bytes(), std::byte{kPoison});
  const std::size_t stride = placed.size() / static_cast<std::size_t>(trial_.slots.slots);
  for (std::int64_t slot = 0; slot < trial_.slots.slots; ++slot)
    std::memcpy(&placed[slot * stride], &before_[slot * state], state);
  return placed;
}

void PoolRig::reset() {
  rig_.reset();
  pool_.upload(placed_pool().data());
  final_pool_.poison();
}

std::string PoolRig::run(const Plan& plan) {
  reset();
  const auto once = [&](const Forward&, void* workspace, std::size_t bytes, Stream stream) {
    return plan.run(forward_, workspace, bytes, stream);
  };
  const std::string failure = rig_.run(once, plan.workspace_bytes());
  return failure.empty() ? judge() : failure;
}

const reference::PooledOutputs& PoolRig::expected() {
  if (!expected_) {
    const std::vector<double> pool = reference::state_values(trial_.trial.problem, before_.data(),
                                                             static_cast<int>(trial_.slots.slots));
    expected_ =
        reference::pooled(reference::reference_inputs(truth_.tensors()), pool, trial_.slots);
  }
  return *expected_;
}

std::string PoolRig::judge() {
  const std::string outputs = judge_outputs();
  return outputs.empty() ? judge_pools() : outputs;
}

std::string PoolRig::judge_outputs() {
  const Problem& p = trial_.trial.problem;
  const reference::Outputs found = rig_.outputs();
  const std::vector<double>& truth = expected().o;
  const reference::Error o = reference::error_of(found.o, truth, p.value_dim);
  if (!(o.rel_l2 <= reference::o_tolerance(p)) || o.not_finite > 0) return "o " + to_text(o);
  for (std::size_t i = 0; i < found.o.size(); ++i)
    if (std::isnan(truth[i]) && !std::isnan(found.o[i]))
      return "o was written at element " + std::to_string(i) + ", of padding or of no sequence";
  return {};
}

std::string PoolRig::judge_pools() {
  const Problem& p = trial_.trial.problem;
  const Slots& s = trial_.slots;
  const std::int64_t elements = problem::slot_elements(p);
  const DeviceMemory& memory = trial_.apart && p.final_state ? final_pool_ : pool_;
  std::vector<std::byte> before = placed_pool();
  if (trial_.apart) {
    if (pool_.download() != before) return "the pool that is only read was written";
    std::fill(before.begin(), before.end(), std::byte{kPoison});
  }
  const std::vector<std::byte> after = memory.download();
  for (const DeviceMemory* each :
       {&pool_, &final_pool_, &indices_, &initial_indices_, &accepted_, &checkpoints_})
    if (each->bytes() > 0)
      if (const std::string damage = each->canary_damage(); !damage.empty()) return damage;

  const std::size_t state = slot_bytes(p), stride = after.size() / s.slots;
  std::vector<std::byte> written;
  std::vector<double> truth;
  for (std::int64_t slot = 0; slot < s.slots; ++slot) {
    const std::byte* a = &after[slot * stride];
    const std::int64_t writers = expected().writers[slot];
    const std::size_t untouched = writers == 0 ? 0 : state;  // where what nobody wrote begins
    if (!std::equal(a + untouched, a + stride, &before[slot * stride] + untouched))
      return "slot " + std::to_string(slot) + (writers == 0 ? "" : "'s gap") + " was written";
    if (writers != 1) continue;
    written.insert(written.end(), a, a + state);
    truth.insert(truth.end(), expected().pool.begin() + slot * elements,
                 expected().pool.begin() + (slot + 1) * elements);
  }
  const std::vector<double> states = reference::state_values(
      p, written.data(), static_cast<int>(truth.size() / static_cast<std::size_t>(elements)));
  const reference::Error error =
      reference::error_of(states, truth, std::int64_t{p.key_dim} * p.value_dim);
  if (!(error.rel_l2 <= reference::state_tolerance(p)) || error.not_finite > 0)
    return "states " + to_text(error);
  return {};
}

}  // namespace kda::test
