#include "problem/check.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <utility>

#include "abi/dtype.h"
#include "problem/check_pool.hpp"
#include "problem/refuse.hpp"

namespace kda::problem {

namespace {

int bytes_of(DType type) { return abi::bytes_of(static_cast<abi::DType>(type)); }

// A pointer of Forward and what the problem says of it.
struct Pointer {
  const char* name;
  const void* data;
  int alignment;  // bytes: that of its element, a power of two
  bool needed;    // something is read or written through it
};

Status check_pointer(const Pointer& pointer) {
  if (pointer.needed && pointer.data == nullptr) return refuse_argument("{} is null", pointer.name);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer.data);
  if ((address & static_cast<unsigned>(pointer.alignment - 1)) != 0) {
    return refuse_argument("{} = {:#x} is not aligned to its element of {} bytes", pointer.name,
                           address, pointer.alignment);
  }
  return {};
}

// A strided tensor of Forward: its extents and strides, outermost first.
struct Axis {
  const char* name;
  std::int64_t size, stride;
};

struct Strided {
  const char* name;
  Axis axes[3];  // sequence, token, head
  std::int64_t channels;
  int bytes;  // an element
  bool written;
};

// Disjoint when, from the innermost axis out, each stride clears all that lies inside it.
Status check_disjoint(const Strided& tensor) {
  Axis axes[3] = {tensor.axes[0], tensor.axes[1], tensor.axes[2]};
  const auto order = [&](int a, int b) {
    if (axes[b].stride < axes[a].stride) std::swap(axes[a], axes[b]);
  };
  order(0, 1), order(1, 2), order(0, 1);
  std::int64_t extent = tensor.channels;
  for (const Axis& axis : axes) {
    if (axis.size <= 1) continue;
    if (axis.stride < extent) {
      return refuse_argument(
          "{}_strides.{} = {} makes elements of the output overlap; at least {} does not",
          tensor.name, axis.name, axis.stride, extent);
    }
    extent += (axis.size - 1) * axis.stride;
  }
  return {};
}

Status check_strides(const Strided& tensor) {
  std::int64_t room = std::numeric_limits<std::int64_t>::max() / tensor.bytes - tensor.channels;
  for (const Axis& axis : tensor.axes) {
    if (axis.size <= 1) continue;
    if (axis.stride <= 0) {
      return refuse_argument(
          "{}_strides.{} = {}; with {} of them it must be positive (all three 0: "
          "contiguous)",
          tensor.name, axis.name, axis.stride, axis.size);
    }
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(axis.stride, axis.size - 1, &reach) || reach > room) {
      return refuse_argument("{}_strides.{} = {} reaches past 63 bits of address", tensor.name,
                             axis.name, axis.stride);
    }
    room -= reach;
  }
  return tensor.written ? check_disjoint(tensor) : Status{};
}

Status check_sizes(const Problem& p, const Forward& f) {
  if (f.tokens < 0 || f.tokens > p.max_tokens) {
    return refuse_argument("tokens = {}; the plan takes 0..max_tokens = {}", f.tokens,
                           p.max_tokens);
  }
  if (f.sequences < 1 || f.sequences > p.max_sequences) {
    return refuse_argument("sequences = {}; the plan takes 1..max_sequences = {}", f.sequences,
                           p.max_sequences);
  }
  if (!p.varlen && f.tokens % f.sequences != 0) {
    return refuse_argument(
        "tokens = {} is not a multiple of sequences = {}; sequences of unequal length "
        "need Problem::varlen",
        f.tokens, f.sequences);
  }
  return {};
}

// A tensor that the problem does not name would be ignored in silence.
Status check_unwanted(const Problem& p, const Forward& f) {
  if (!p.varlen && f.cu_seqlens != nullptr) {
    return refuse_argument(
        "cu_seqlens is given, but Problem::varlen = false; make the plan with it, or "
        "pass null");
  }
  if (!p.initial_state && f.initial_state != nullptr) {
    return refuse_argument(
        "initial_state is given, but Problem::initial_state = false; make the plan with "
        "it, or pass null");
  }
  if (!p.final_state && f.final_state != nullptr) {
    return refuse_argument(
        "final_state is given, but Problem::final_state = false; make the plan with it, "
        "or pass null");
  }
  if (p.wy_chunk == 0 && (f.w != nullptr || f.u != nullptr)) {
    return refuse_argument(
        "{} is given, but Problem::wy_chunk = 0; make the plan with it, or pass null",
        f.w != nullptr ? "w" : "u");
  }
  if (!p.committed_tokens && f.committed_tokens != nullptr) {
    return refuse_argument(
        "committed_tokens is given, but Problem::committed_tokens = false; make the plan with it, "
        "or pass null");
  }
  return {};
}

Status check_pointers(const Problem& p, const Forward& f) {
  const bool some = f.tokens > 0;
  const int qkv = bytes_of(p.qkv_type);
  const int state = bytes_of(p.state_type);
  // Not an array, here and below: one of constants and variables g++ clears first, by a string
  // instruction that takes as long as the checks.
  const std::initializer_list<Pointer> pointers = {
      {"cu_seqlens", f.cu_seqlens, p.cu_seqlens_type == Index::i32 ? 4 : 8, p.varlen},
      {"q", f.q, qkv, some},
      {"w", f.w, qkv, false},
      {"u", f.u, qkv, false},
      {"k", f.k, qkv, some},
      {"v", f.v, qkv, some},
      {"g", f.g, bytes_of(p.gate_type), some},
      {"beta", f.beta, bytes_of(p.beta_type), some},
      {"A_log", f.A_log, 4, false},
      {"dt_bias", f.dt_bias, 4, false},
      {"initial_state", f.initial_state, state, p.initial_state},
      {"o", f.o, qkv, some},
      {"final_state", f.final_state, state, p.final_state},
      {"committed_tokens", f.committed_tokens, p.slot_index_type == Index::i32 ? 4 : 8, false},
  };
  for (const Pointer& pointer : pointers) {
    if (Status status = check_pointer(pointer); !status) return status;
  }
  return {};
}

Status check_all_strides(const Problem& p, const Forward& f) {
  if (f.tokens == 0) return {};
  struct Tensor {
    const char* name;
    const Strides& strides;
    int heads, channels;
    DType type;
    bool written = false;
  };
  const int h = p.heads, hv = p.value_heads;
  const std::initializer_list<Tensor> tensors = {
      {"q", f.q_strides, h, p.key_dim, p.qkv_type},
      {"k", f.k_strides, h, p.key_dim, p.qkv_type},
      {"v", f.v_strides, hv, p.value_dim, p.qkv_type},
      {"g", f.g_strides, hv, p.key_dim, p.gate_type},
      {"beta", f.beta_strides, hv, 1, p.beta_type},
      {"o", f.o_strides, hv, p.value_dim, p.qkv_type, true},
  };
  // A packed run has one row of T tokens, whatever its sequence stride says.
  const std::int64_t rows = p.varlen ? 1 : f.sequences;
  const std::int64_t length = f.tokens / rows;
  for (const auto& [name, strides, heads, channels, type, written] : tensors) {
    if (strides.sequence == 0 && strides.token == 0 && strides.head == 0) continue;  // contiguous
    const Strided strided{name,
                          {{"sequence", rows, strides.sequence},
                           {"token", length, strides.token},
                           {"head", heads, strides.head}},
                          channels,
                          bytes_of(type),
                          written};
    if (Status status = check_strides(strided); !status) return status;
  }
  return {};
}

// Strided tensors may interleave in one buffer, so only what is surely wrong is refused.
Status check_aliases(const Problem& p, const Forward& f) {
  const auto of_rows = [&](const void* data) { return f.tokens > 0 ? data : nullptr; };
  const bool in_place = f.initial_state == f.final_state;
  const std::pair<const char*, const void*> written[] = {
      {"w", of_rows(f.w)},
      {"u", of_rows(f.u)},
      {"o", of_rows(f.o)},
      {"final_state", f.final_state},
  };
  const std::pair<const char*, const void*> read[] = {
      {"q", of_rows(f.q)},
      {"k", of_rows(f.k)},
      {"v", of_rows(f.v)},
      {"g", of_rows(f.g)},
      {"beta", of_rows(f.beta)},
      {"initial_state", in_place ? nullptr : f.initial_state},
      {"cu_seqlens", f.cu_seqlens},
      {"A_log", f.A_log},
      {"dt_bias", f.dt_bias},
      {"committed_tokens", f.committed_tokens},
      {"pool.indices", f.pool.indices.data},
      {"pool.initial_indices", f.pool.initial_indices},
      {"pool.num_accepted_tokens", f.pool.num_accepted_tokens},
      {"pool.checkpoints", f.pool.checkpoints.data},
  };
  for (const auto* each = std::begin(written); each != std::end(written); ++each) {
    const auto& [name, data] = *each;
    if (data == nullptr) continue;
    const auto is_it = [data = data](const auto& other) { return other.second == data; };
    const auto* other = std::find_if(std::begin(read), std::end(read), is_it);
    if (other == std::end(read)) {
      other = std::find_if(each + 1, std::end(written), is_it);
      if (other == std::end(written)) continue;
    }
    return refuse_argument("{} and {} are the same memory; outputs need their own", name,
                           other->first);
  }
  if (f.initial_state != nullptr && f.final_state != nullptr) {
    const auto from = reinterpret_cast<std::uintptr_t>(f.initial_state);
    const auto to = reinterpret_cast<std::uintptr_t>(f.final_state);
    const std::uint64_t bytes = state_extent(p, f);
    const std::uint64_t apart = from < to ? to - from : from - to;
    if (apart != 0 && apart < bytes && !slots_interleave(p, f, apart)) {
      return refuse_argument(
          "final_state overlaps initial_state {} bytes in; it must be the same memory or "
          "none of its {} bytes",
          apart, bytes);
    }
  }
  return {};
}

}  // namespace

Status check(const Problem& problem, const Forward& forward) {
  if (Status status = check_sizes(problem, forward); !status) return status;
  if (Status status = check_unwanted(problem, forward); !status) return status;
  if (Status status = check_pointers(problem, forward); !status) return status;
  if (Status status = check_all_strides(problem, forward); !status) return status;
  if (Status status = check_pool(problem, forward); !status) return status;
  if (Status status = check_aliases(problem, forward); !status) return status;
  return {};
}

}  // namespace kda::problem
