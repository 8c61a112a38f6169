#include "support/rig.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "reference/dtype.hpp"

namespace kda::test {

using reference::Bytes;
using reference::bytes_of;

namespace {

constexpr int kOddGap = 3;  // elements: rows then start at odd elements

// Copies rows of `bytes` between a contiguous [tokens, heads, channels] and a placed tensor.
template <class Copy>
void each_row(const Placement& place, std::size_t element, const Copy& copy) {
  const std::size_t row = static_cast<std::size_t>(place.channels) * element;
  std::size_t contiguous = 0;
  for (std::int64_t token = 0; token < place.tokens; ++token)
    for (int head = 0; head < place.heads; ++head, contiguous += row)
      copy(contiguous, static_cast<std::size_t>(place.at(token, head, 0)) * element, row, token);
}

bool all_poison(const std::byte* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{kPoison}; });
}

}  // namespace

Placement place(const Trial& trial, int heads, int channels) {
  Placement out;
  out.tokens = trial.tokens();
  out.heads = heads;
  out.channels = channels;
  const std::int64_t rows =
      trial.problem.varlen ? 1 : static_cast<std::int64_t>(trial.lengths.size());
  out.row_tokens = std::max<std::int64_t>(1, out.tokens / rows);
  const std::int64_t T = out.row_tokens, H = heads, C = channels;
  Strides& s = out.strides;
  switch (trial.layout) {
    case Layout::contiguous:
      s = {T * H * C, H * C, C};
      break;
    case Layout::heads_first:
      s = {H * T * C, C, T * C};
      break;
    case Layout::sliced:
      s = {T * 3 * H * C, 3 * H * C, C};
      break;
    case Layout::gapped: {
      const std::int64_t head = C + 1, token = H * head + kOddGap;
      s = {T * token + 2 * kOddGap, token, head};
      break;
    }
  }
  if (out.tokens > 0) out.extent = out.at(out.tokens - 1, heads - 1, channels - 1) + 1;
  return out;
}

Rig::Rig(const Gpu& gpu, const Trial& trial, const reference::Tensors& tensors)
    : gpu_(gpu), trial_(trial), tensors_(tensors) {
  const Problem& p = trial_.problem;
  const Placement qk = place(trial_, p.heads, p.key_dim);
  const Placement v = place(trial_, p.value_heads, p.value_dim);
  const Placement g = place(trial_, p.value_heads, p.key_dim);
  const Placement beta = place(trial_, p.value_heads, 1);
  o_place_ = v;

  forward_.tokens = trial_.tokens();
  forward_.sequences = static_cast<int>(trial_.lengths.size());
  forward_.q = input("q", p.qkv_type, qk, tensors.q);
  forward_.k = input("k", p.qkv_type, qk, tensors.k);
  forward_.v = input("v", p.qkv_type, v, tensors.v);
  forward_.g = input("g", p.gate_type, g, tensors.g);
  forward_.beta = input("beta", p.beta_type, beta, tensors.beta);
  if (trial_.layout != Layout::contiguous) {
    forward_.q_strides = forward_.k_strides = qk.strides;
    forward_.v_strides = forward_.o_strides = v.strides;
    forward_.g_strides = g.strides;
    forward_.beta_strides = beta.strides;
  }
  const auto floats = [&](const char* name, const std::vector<float>& values) {
    if (values.empty()) return static_cast<const float*>(nullptr);
    return static_cast<const float*>(raw(name, values.data(), values.size() * 4, 4));
  };
  forward_.A_log = floats("A_log", tensors.A_log);
  forward_.dt_bias = floats("dt_bias", tensors.dt_bias);
  if (p.varlen) {
    const auto& given = trial_.cu_seqlens.empty() ? tensors.cu_seqlens : trial_.cu_seqlens;
    const std::vector<std::int32_t> narrow(given.begin(), given.end());
    forward_.cu_seqlens = p.cu_seqlens_type == Index::i32
                              ? raw("cu_seqlens", narrow.data(), narrow.size() * 4, 4)
                              : raw("cu_seqlens", given.data(), given.size() * 8, 8);
  }

  if (p.committed_tokens) {
    const auto& given = tensors.committed_tokens;
    const std::vector<std::int32_t> narrow(given.begin(), given.end());
    forward_.committed_tokens = p.slot_index_type == Index::i32
                                    ? raw("committed_tokens", narrow.data(), narrow.size() * 4, 4)
                                    : raw("committed_tokens", given.data(), given.size() * 8, 8);
  }

  const std::size_t element = bytes_of(p.qkv_type), state_element = bytes_of(p.state_type);
  o_ = DeviceMemory(gpu, static_cast<std::size_t>(o_place_.extent) * element,
                    (trial_.misaligned + trial_.misaligned_o) * element);
  forward_.o = o_.data();
  const std::size_t state_bytes = static_cast<std::size_t>(forward_.sequences) * p.value_heads *
                                  p.key_dim * static_cast<std::size_t>(p.value_dim) * state_element;
  const std::size_t offset = trial_.misaligned * state_element;
  if (p.state_pool) return;  // a PoolRig's
  if (p.initial_state) {
    initial_state_ = DeviceMemory(gpu, state_bytes, offset);
    initial_state_.upload(tensors.initial_state.data());
    forward_.initial_state = initial_state_.data();
  }
  if (p.final_state && trial_.in_place_state) {
    forward_.final_state = initial_state_.data();
  } else if (p.final_state) {
    final_state_ = DeviceMemory(gpu, state_bytes, offset);
    forward_.final_state = final_state_.data();
  }
}

void* Rig::input(const char* name, DType type, const Placement& place, const Bytes& values) {
  const std::size_t element = bytes_of(type);
  DeviceMemory memory(gpu_, static_cast<std::size_t>(place.extent) * element,
                      trial_.misaligned * element);
  Bytes staged(memory.bytes(), std::byte{kPoison});
  const std::int64_t covered = tensors_.cu_seqlens.back();
  each_row(place, element,
           [&](std::size_t from, std::size_t to, std::size_t bytes, std::int64_t token) {
             if (token < covered) std::memcpy(&staged[to], &values[from], bytes);
           });
  memory.upload(staged.data());
  inputs_.push_back({name, std::move(memory)});
  return inputs_.back().memory.data();
}

void* Rig::raw(const char* name, const void* data, std::size_t bytes, std::size_t element) {
  inputs_.push_back({name, DeviceMemory(gpu_, bytes, trial_.misaligned * element)});
  inputs_.back().memory.upload(data);
  return inputs_.back().memory.data();
}

void Rig::reset() {
  o_.poison();
  final_state_.poison();
  if (trial_.in_place_state) initial_state_.upload(tensors_.initial_state.data());
}

std::string Rig::run(const Plan& plan) {
  return run([&](const Forward& forward, void* workspace, std::size_t bytes,
                 Stream stream) { return plan.run(forward, workspace, bytes, stream); },
             plan.workspace_bytes());
}

std::string Rig::run(const Run& run, std::size_t workspace_bytes) {
  reset();
  const DeviceMemory workspace(gpu_, workspace_bytes);
  gpu_.synchronize();
  const Status status = run(forward_, workspace.data(), workspace_bytes, gpu_.stream());
  if (!status) return std::string(name_of(status.code())) + ": " + status.message();
  if (const Status after = launch::check(gpu_.driver().CtxSynchronize(), "the run"); !after)
    return after.message();
  if (const std::string damaged = workspace.canary_damage(); !damaged.empty())
    return "workspace: " + damaged;
  return damage();
}

std::string Rig::damage() const {
  std::string text;
  const auto report = [&](const char* name, const std::string& what) {
    if (!what.empty()) text += std::string(text.empty() ? "" : "; ") + name + ": " + what;
  };
  for (const Named& named : inputs_) report(named.name, named.memory.canary_damage());
  report("o", o_.canary_damage());
  if (initial_state_.bytes() > 0) report("initial_state", initial_state_.canary_damage());
  if (final_state_.bytes() > 0) report("final_state", final_state_.canary_damage());
  report("o", written_outside(o_.download()));
  return text;
}

// Every byte of o that belongs to no token of a sequence must still be poison.
std::string Rig::written_outside(const std::vector<std::byte>& o) const {
  if (!trial_.cu_seqlens.empty()) return {};  // any token of the tensor may be one of a sequence
  std::vector<std::byte> rest = o;
  const std::int64_t covered = tensors_.cu_seqlens.back();
  each_row(o_place_, bytes_of(trial_.problem.qkv_type),
           [&](std::size_t, std::size_t at, std::size_t bytes, std::int64_t token) {
             if (token < covered) std::memset(&rest[at], kPoison, bytes);
           });
  if (all_poison(rest.data(), rest.size())) return {};
  return "elements between rows or past the last sequence were written";
}

reference::Outputs Rig::outputs() const {
  const Bytes placed = o_.download();
  Bytes o(tensors_.v.size());
  each_row(o_place_, bytes_of(trial_.problem.qkv_type),
           [&](std::size_t to, std::size_t from, std::size_t bytes, std::int64_t) {
             std::memcpy(&o[to], &placed[from], bytes);
           });
  const DeviceMemory& state = trial_.in_place_state ? initial_state_ : final_state_;
  const Bytes final_state = state.download();
  const bool has_state = trial_.problem.final_state && !trial_.problem.state_pool;
  return reference::reference_outputs(tensors_, o.data(), has_state ? final_state.data() : nullptr);
}

std::vector<std::byte> Rig::output_bits() const {
  Bytes bits = o_.download();
  const Bytes state = (trial_.in_place_state ? initial_state_ : final_state_).download();
  bits.insert(bits.end(), state.begin(), state.end());
  return bits;
}

}  // namespace kda::test
