// Kimi Delta Attention, compiled at run time for the device at hand.
//
// Make a Plan once for a Problem, then run it many times:
//
//   kda::Problem p{.heads = 16, .value_heads = 64, .max_tokens = 8192};
//   kda::Result<kda::Plan> plan = kda::Plan::make(p);     // may compile: milliseconds to seconds
//   if (!plan) return report(plan.status().message());
//   void* workspace = allocate(plan->workspace_bytes());  // device memory, yours
//   kda::Status s = plan->run(tensors, workspace, plan->workspace_bytes(), stream);  // enqueues
//
// Letters used below, as in the field: T tokens over all sequences, N sequences,
// H query/key heads, HV value heads (GVA when HV > H), K key channels, V value channels.
//
// Per value head, with S [K, V] starting at initial_state or zero, every token does
//   S = diag(exp(g)) S;  S += beta k (v - S^T k)^T;  o = scale S^T q
// where value head j reads query/key head j / (HV / H).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kda/state_pool.hpp"
#include "kda/status.hpp"

struct CUstream_st;  // cudaStream_t and CUstream both point at this; no CUDA header is needed here

namespace kda {

using Stream = CUstream_st*;

enum class DType : std::int32_t { f32, bf16, f16 };
enum class Index : std::int32_t { i32, i64 };

// How g becomes the log decay of each key channel (always <= 0).
enum class Gate : std::int32_t {
  log_decay,   // g is the log decay, natural log, <= 0; -inf forgets everything
  softplus,    // -exp(A_log) * softplus(g + dt_bias)
  bounded,     // lower_bound * sigmoid(exp(A_log) * (g + dt_bias)), the field's "safe gate"
  logsigmoid,  // log(sigmoid(g)): g is the logit of the decay itself
};

enum class StateLayout : std::int32_t { key_first /* [K, V] */, value_first /* [V, K] */ };

// What to compute.  A model fixes every field but the two max_ fields; kernels are specialised on
// the former and never on T, N or cu_seqlens, so a changing batch does not recompile.
struct Problem {
  int heads = 0;                // H, 1..65535
  int value_heads = 0;          // HV, a multiple of H up to 65535; 0 means H
  int key_dim = 128;            // K, 1..256
  int value_dim = 128;          // V, 1..65536
  std::int64_t max_tokens = 0;  // largest T of any run; sizes the workspace and guides the tuning
  int max_sequences = 1;        // largest N of any run
  bool varlen = false;          // runs bring cu_seqlens; otherwise every sequence has T / N tokens
  Index cu_seqlens_type = Index::i64;

  DType qkv_type = DType::bf16;   // q, k, v and o
  DType gate_type = DType::bf16;  // g
  DType beta_type = DType::bf16;
  DType state_type = DType::f32;  // initial_state and final_state, f32 or bf16; arithmetic is f32

  Gate gate = Gate::bounded;
  float lower_bound = -5.0F;      // Gate::bounded only; log units per token, finite and < 0
  bool beta_is_logit = true;      // apply sigmoid to beta
  bool allow_neg_eigval = false;  // then beta is doubled, reaching (0, 2)
  // What is given without a sigmoid lies in [0, 1], as sigmoids do.  Without this promise it may
  // reach 2, which the fastest kernels do not serve: then a run looks whether it did (strategy
  // unit_steps).  Where a beta breaks it, o and the final state are NaN from there on, o perhaps
  // from up to 63 tokens before.  Logits need none.
  bool beta_at_most_one = false;
  bool l2norm_qk = true;  // divide each row of q and k by sqrt(sum of squares + 1e-6)
  // Where l2norm_qk is false: q and k come normalised.  Rows of k are no longer than 1.0078 and,
  // but for zeros, no shorter than 1/16; rows of q, and those times a scale of 1/32 or more, are
  // 1/64 to 1024 long, or zeros.  A promise as beta_at_most_one, with the same use; where a row
  // breaks it, o and the final state are right or NaN as there, by strategy.  In f16 strategies of
  // chunks have room for a q k beta of 63, without a promise of 255, and beyond o is infinite or
  // NaN; recurrent has no such end.
  bool qk_normalized = false;
  float scale = 0.0F;  // multiplies q; 0 means 1 / sqrt(K)

  StateLayout state_layout = StateLayout::value_first;
  bool initial_state = false;  // runs bring one; otherwise the state starts at zero
  bool final_state = false;    // runs want it written

  // Serving (kda/state_pool.hpp).
  bool state_pool = false;  // initial_state and final_state are pools, their slots named by index
  Index slot_index_type = Index::i32;  // of the indices, num_accepted_ and committed_tokens
  bool draft_states =
      false;  // speculative decoding: keep the state after every token, not the last
  int checkpoint_tokens = 0;  // keep it after each multiple of so many tokens, >= 64, too; 0: no
  bool zero_padding = false;  // outputs of padding become zero; otherwise they stay as they are
  // varlen: runs pack sequences of a few tokens beside long ones, or one sequence has most of the
  // tokens.  Planned as one long sequence and others of a token each; short ones may then be served
  // apart.  Right for any lengths.  Where nothing is said of a pack, a run may look how they are
  // (strategy by_lengths); of more than 32 sequences short ones are served apart anyway.
  bool mixed_lengths = false;
  // Speculative decoding without draft_states: runs may say how many of a sequence's first tokens
  // its final state knows (Forward), in a pool or not.  A run begins with the tokens that were
  // accepted of the one before, and only the state after those is written, not one for every draft.
  // Served token by token (strategy recurrent): for decodes, slow for prefills.
  bool committed_tokens = false;

  // Dense runs of chunk strategies, without a pool, may also bring out w and u (Forward), of chunks
  // of 16, 32 or 64 tokens; 0: not.  Of 64, and of 32 in f32, wide keys find no room on some
  // devices: K of up to 128 does everywhere where V <= 1024; supports() says, README.md has the
  // table.
  int wy_chunk = 0;

  bool operator==(const Problem&) const = default;
};

// Where a plan's choices may come from.
enum class Effort : std::int32_t {
  wisdom_only,  // use what was measured on this device or fail with Code::no_wisdom; never guess
  estimate,     // recorded measurements, else the cost model; never times anything
  measure,      // what is recorded for just this problem and device, else time the candidates on
                // the device and record the winner: seconds, and device memory for the inputs;
                // where that fails as estimate, and the next such call tries again
};

// What is done with the directory of compiled kernels; off: nor is $KDA_CACHE_PATH read.
enum class CacheMode : std::int32_t { by_environment /* $KDA_CACHE */, off, read_only, read_write };

struct Options {
  int device = -1;       // CUDA ordinal; -1 is the current context's device, else 0
  std::string target{};  // compile for this device instead, present or not: "sm_89", "sm_90a",
                         // "h200", ...; such a plan describes itself and refuses to run
  Effort effort = Effort::estimate;
  double time_limit_seconds = 0;  // of Effort::measure, per problem; 0 is no limit
  Stream stream = nullptr;        // Effort::measure refuses while this one, or one that the legacy
                                  // default stream would join, is being captured
  std::string cache_dir{};        // compiled kernels; empty: $KDA_CACHE_DIR, else the user's cache
  CacheMode cache_mode = CacheMode::by_environment;
  std::string wisdom_dir{};  // measurements; empty: $KDA_WISDOM_DIR, else beside the cache

  // For tuning, tests and bug reports: force the choice.  Empty leaves it to the planner.
  std::string strategy{};  // "chunk", "recurrent", ...: kda-tune list names them
  std::string tuning{};    // "chunk=32 shards=2": the named tunables are fixed, the rest chosen

  bool operator==(const Options&) const = default;
};

// Elements between neighbours; the last dimension is always contiguous.  All zero: the contiguous
// [T, heads, channels] default.
struct Strides {
  std::int64_t sequence = 0;  // dense runs only: from a sequence's first token to the next one's
  std::int64_t token = 0;
  std::int64_t head = 0;
};

// One run's tensors: device memory, base aligned to the element (16 bytes is faster, never needed).
// Outputs must not overlap inputs, but for final_state, which may be initial_state.
struct Forward {
  std::int64_t tokens = 0;           // T <= max_tokens; 0 is allowed: copies the state
  int sequences = 1;                 // N <= max_sequences; dense: divides T
  const void* cu_seqlens = nullptr;  // [N + 1] from 0 to at most T, never decreasing; varlen only
  const void* q = nullptr;           // [T, H, K]
  const void* k = nullptr;           // [T, H, K]
  const void* v = nullptr;           // [T, HV, V]
  const void* g = nullptr;           // [T, HV, K]
  const void* beta = nullptr;        // [T, HV]
  // [HV]; exp(A_log) is held to what f32 has, by bounded gates perhaps to 2^100, at which |dt_bias|
  // must be below 2^27; null: it is 1.  Read by softplus and bounded only.
  const float* A_log = nullptr;
  const float* dt_bias = nullptr;  // [HV, K]; null: 0; the same
  // [N, HV, V, K] or [N, HV, K, V] by state_layout, contiguous; or a pool of slots of that.
  const void* initial_state = nullptr;
  void* o = nullptr;            // [T, HV, V], written; tokens past cu_seqlens[N] are not
  void* final_state = nullptr;  // as initial_state, written; may be the same memory
  Strides q_strides{}, k_strides{}, v_strides{}, g_strides{}, beta_strides{}, o_strides{};
  StatePool pool{};  // only with Problem::state_pool

  // Only with Problem::wy_chunk = C.  Written, of qkv_type, contiguous, zero past the sequence's
  // end; each may be null.  Nc = T / N / C rounded up.  In a chunk, with D_i = g_1 + ... + g_i and
  // L_ij = beta_i sum over channels of k_i k_j exp(D_i - D_j), i > j:
  void* w = nullptr;  // [N, HV, Nc, C, K], (I + L)^-1 (beta exp(D) k)
  void* u = nullptr;  // [N, HV, Nc, C, V], (I + L)^-1 (beta v)

  // [N] of slot_index_type, only with Problem::committed_tokens; null: all.  The final state of
  // sequence n is the one after its first committed_tokens[n], clamped to 0 and its length; at 0
  // its initial state, or zero where it has none.  Its other tokens have outputs and leave nothing
  // else.
  const void* committed_tokens = nullptr;
};

// Immutable.  Any number of threads may run one plan at once, each with its own workspace.
class Plan {
 public:
  // Chooses, composes, compiles (or finds in the cache) and loads the kernels.  Blocks.
  // Fails with invalid_argument (options), invalid_problem, unsupported, no_wisdom, compile_failed
  // or device_error.  The same call again takes microseconds: the last plans' kernels stay loaded.
  // Any thread may make plans, and let them go, while a stream is captured, that thread's own too;
  // of Effort::measure see Options::stream.
  static Result<Plan> make(const Problem& problem, const Options& options = {});

  // The same for several problems; their kernels compile in parallel and equal ones once.
  static std::vector<Result<Plan>> make_all(std::span<const Problem> problems,
                                            const Options& options = {});

  // One that was moved from may be assigned to or destroyed, and nothing else.
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  // As given, with the defaults filled in.
  const Problem& problem() const noexcept;

  // Bytes of device memory a run needs, 256-byte aligned.  Contents need no initialising and mean
  // nothing between runs.
  std::size_t workspace_bytes() const noexcept;

  // Enqueues the kernels on stream, of the plan's device, which need not be the current one but for
  // the default streams, and returns: several as one CUDA graph that the plan keeps where the
  // stream is not being captured.  Never allocates, synchronises or compiles, so it may be captured
  // in a CUDA graph.  Fails with invalid_argument or unsupported (a plan for a named target), by
  // which nothing has been enqueued, or device_error.  A kernel of the caller's that is launched
  // programmatically behind a run may begin before the run has ended: it must wait
  // (griddepcontrol.wait) before it reads what the run writes, or writes what the run reads, the
  // workspace included.  One launched otherwise begins after the run's end.
  Status run(const Forward& forward, void* workspace, std::size_t workspace_bytes,
             Stream stream) const;

  // For people: strategy, tuning, where the choice came from, registers and shared memory a kernel.
  std::string describe() const;

  struct Impl;  // the library's own

 private:
  explicit Plan(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// Whether some strategy covers the problem on the device.  Compiles nothing.
Status supports(const Problem& problem, const Options& options = {});

}  // namespace kda
