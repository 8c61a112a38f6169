// A run's tensors and sizes as kernels see them: the part that every strategy's Args share.
#pragma once

namespace kda::abi {

// Element (sequence n, token t, head h, channel c) of a strided tensor is
// data[n * sequence + t * token + h * head + c].  Packed (varlen) runs have sequence = 0 and t over
// the whole pack.
struct Tensor {
  const void* data = nullptr;
  long long sequence = 0;  // elements
  long long token = 0;
  long long head = 0;
};

struct Inputs {
  Tensor q, k;                       // [T, H, K]
  Tensor v;                          // [T, HV, V]
  Tensor g;                          // [T, HV, K]
  Tensor beta;                       // [T, HV]
  const float* A_log = nullptr;      // [HV] or null
  const float* dt_bias = nullptr;    // [HV, K] or null
  const void* cu_seqlens = nullptr;  // [N + 1], Shape::cu_seqlens_type; null when dense
  long long tokens = 0;              // T
  long long length = 0;              // T / N, tokens a sequence of a dense run
  int sequences = 0;                 // N
  int value_heads = 0;               // HV
  float scale = 1.0F;                // multiplies q
  float lower_bound = -5.0F;         // Gate::bounded, log units
};

// [N, columns] slots of a state pool, of Shape::slot_index_type; elements [n * stride + column].
struct IndexTable {
  const void* data = nullptr;
  long long stride = 0;
  int columns = 0;
};

// Which slots a run reads and writes, Shape::state_pool only; include/kda/state_pool.hpp says what
// each means.
struct StatePool {
  long long slots = 0;
  long long stride = 0;  // elements from a slot to the next
  IndexTable indices;
  const void* initial_indices = nullptr;      // [N] or null
  const void* num_accepted_tokens = nullptr;  // [N] or null
  IndexTable checkpoints;
  int checkpoint_tokens = 0;
};

struct Outputs {
  Tensor o;                             // [T, HV, V]; data is written
  const void* initial_state = nullptr;  // [N, HV, V, K] or [N, HV, K, V], or a pool of slots
  void* final_state = nullptr;          // the same; may alias initial_state
  StatePool pool;
};

}  // namespace kda::abi
