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
  std::int64_t max_tokens = 0;  // largest T of any run, so 0 serves none but T = 0; sizes the
                                // workspace and guides the tuning
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
  bool allow_neg_eigval = false;  // with beta_is_logit only: beta is doubled, reaching (0, 2)
  // Only where beta_is_logit is false: a promise that every beta lies in [0, 1].  Without it beta
  // may reach 2, which the fastest kernels do not serve, so a run may check, and go again by others
  // where a beta is above 1 (strategy unit_steps).  A beta that breaks the promise makes o and the
  // final state NaN from its token on, and o perhaps from up to 63 tokens before.  Refused with
  // allow_neg_eigval; dropped where beta_is_logit is true, as sigmoids need no promise.
  bool beta_at_most_one = false;
  bool l2norm_qk = true;  // divide each row of q and k by sqrt(sum of squares + 1e-6)
  // Only where l2norm_qk is false: a promise that q and k come normalised.  Every row of k is zero
  // or 1/16 to 1.0078 long; every row of q is zero or 1/64 to 1024 long, and so is that row times
  // scale where scale is 1/32 or more.  As beta_at_most_one it lets the fastest kernels serve
  // without a check; where a row breaks it, o and the final state are, by strategy, right or NaN as
  // there.  f16: strategies of chunks hold |beta (q . k)| of up to 63, or 255 without this promise;
  // beyond that o is infinite or NaN.  Strategy recurrent has no such limit.
  bool qk_normalized = false;
  float scale = 0.0F;  // multiplies q; 0 means 1 / sqrt(K)

  StateLayout state_layout = StateLayout::value_first;
  bool initial_state = false;  // runs bring one; otherwise the state starts at zero
  bool final_state = false;    // runs want it written

  // Serving (kda/state_pool.hpp).
  bool state_pool = false;  // initial_state and final_state, of which one is set at least, are
                            // pools, their slots named by index
  Index slot_index_type = Index::i32;  // of the indices, num_accepted_ and committed_tokens
  // The next three need state_pool; the next two also final_state, and exclude each other.
  bool draft_states = false;  // speculative decoding: keep the state after every token, each in its
                              // own slot, instead of one final state
  int checkpoint_tokens = 0;  // besides the final state keep the one after each multiple of so many
                              // tokens, at least 64; 0: no checkpoints
  bool zero_padding = false;  // write zeros to the outputs of padding; else they stay as they are
  // varlen only; a hint, results are right for any lengths: runs pack sequences of a few tokens
  // beside long ones, or one sequence has most of the tokens.  The plan is made as for one long
  // sequence and others of one token each, and may serve short sequences by kernels of their own.
  // Without it a run may look at the lengths (strategy by_lengths); packs of more than 32 sequences
  // serve short ones by such kernels anyway.
  bool mixed_lengths = false;
  // Speculative decoding that computes accepted tokens again: instead of a state for every draft
  // (draft_states) a run writes one state a sequence, the one after its first
  // Forward::committed_tokens[n] tokens.  The next run begins with the tokens accepted of this one
  // and goes on with new drafts.  With a pool or without; needs final_state; not with draft_states,
  // checkpoint_tokens or wy_chunk.  Served token by token (strategy recurrent): right for decodes,
  // slow for prefills.
  bool committed_tokens = false;

  // Runs may also write w and u (Forward), of chunks of 16, 32 or 64 tokens; 0: no.  Dense runs
  // without a pool or committed_tokens, by chunk, chunk_wgmma or segments.  Shared memory limits K
  // for chunks of 64 tokens, and of 32 in f32, on some devices: K up to 128 is served everywhere
  // where V <= 1024.  supports() answers for one problem, README.md has the table.
  int wy_chunk = 0;

  bool operator==(const Problem&) const = default;
};

// Where a plan's choices may come from.
enum class Effort : std::int32_t {
  wisdom_only,  // only what was measured on this device, else Code::no_wisdom; never guesses
  estimate,     // recorded measurements, perhaps of another device of the same capability, else the
                // cost model; never times anything
  measure,      // a record of just this problem and device, else times the candidates on the device
                // (seconds, and device memory for inputs) and records the winner, unless strategy
                // or tuning is forced; if that fails, as estimate, and the next such call tries
                // again
};

// What is done with the directories of compiled kernels and of measurements.  off: neither is read
// or written, nor $KDA_CACHE_PATH; kernels come from memory and from linked or added bundles.
// read_only: nothing is written, so Effort::measure keeps its result for this process alone.
enum class CacheMode : std::int32_t { by_environment /* $KDA_CACHE */, off, read_only, read_write };

struct Options {
  int device = -1;       // CUDA ordinal; -1 is the current context's device, else 0
  std::string target{};  // compile for this device instead, present or not: "sm_89", "sm_90a",
                         // "h200", ...; such a plan describes itself and refuses to run
  Effort effort = Effort::estimate;
  double time_limit_seconds = 0;  // Effort::measure: for each problem, >= 0; 0 is no limit.  Finals
                                  // of what was found by then still take place
  Stream stream = nullptr;        // Effort::measure only: invalid_argument while it is captured, or
                                  // any stream that the legacy default stream would wait for
  std::string cache_dir{};        // compiled kernels; empty: $KDA_CACHE_DIR, else the user's cache
  CacheMode cache_mode = CacheMode::by_environment;
  std::string wisdom_dir{};  // measurements; empty: $KDA_WISDOM_DIR, else "wisdom" in the cache's
                             // directory

  // For tuning, tests and bug reports: force the choice.  Empty leaves it to the planner.
  std::string strategy{};  // "chunk", "recurrent", ...: kda-tune list names them
  std::string tuning{};    // "chunk=32 shards=2": the named tunables are fixed, the rest chosen

  bool operator==(const Options&) const = default;
};

// Distances, in elements, between neighbouring sequences, tokens and heads; channels always lie
// side by side.  All zero: contiguous [T, heads, channels].  Else each one that has more than one
// of its kind must be positive.
struct Strides {
  std::int64_t sequence = 0;  // dense runs only: from a sequence's first token to the next one's
  std::int64_t token = 0;
  std::int64_t head = 0;
};

// One run's tensors, in device memory, each aligned to its element (to 16 bytes is faster, never
// needed).  cu_seqlens, states, pool, w, u and committed_tokens must be null where Problem does not
// ask for them.  Outputs overlap neither inputs nor each other, except that final_state may be
// initial_state itself.  The struct is read before run() returns, the tensors while the run
// executes.
struct Forward {
  std::int64_t tokens = 0;           // T, 0..max_tokens; at 0 o is untouched, and the final state
                                     // is the initial one or zero (with draft_states: not written)
  int sequences = 1;                 // N, 1..max_sequences; dense: T is a multiple of it
  const void* cu_seqlens = nullptr;  // varlen only: [N + 1], starting at 0, never decreasing, at
                                     // most T; in device memory, so its values are not checked
  const void* q = nullptr;           // [T, H, K]
  const void* k = nullptr;           // [T, H, K]
  const void* v = nullptr;           // [T, HV, V]
  const void* g = nullptr;           // [T, HV, K]
  const void* beta = nullptr;        // [T, HV]
  // [HV], read by Gate::softplus and bounded only; null: zeros, so exp(A_log) is 1.  exp(A_log) is
  // clamped to the largest f32; a bounded gate may clamp it to 2^100, and then needs |dt_bias|
  // below 2^27.
  const float* A_log = nullptr;
  const float* dt_bias = nullptr;  // [HV, K], read by the same gates; null: zeros
  // [N, HV, V, K] or [N, HV, K, V] by state_layout, contiguous; or a pool of slots of that.
  const void* initial_state = nullptr;
  void* o = nullptr;            // [T, HV, V], written; tokens past cu_seqlens[N] are not
  void* final_state = nullptr;  // as initial_state, written; may be the same memory
  Strides q_strides{}, k_strides{}, v_strides{}, g_strides{}, beta_strides{}, o_strides{};
  StatePool pool{};  // only with Problem::state_pool

  // The chunks' WY tensors, only with Problem::wy_chunk = C: outputs of qkv_type, contiguous;
  // either may be null.  Nc = T / N / C rounded up; rows past a sequence's end are zero.  For the
  // tokens i, j of a chunk let D_i = g_1 + ... + g_i (log decays) and, where i > j, L_ij = beta_i
  // times the sum over channels of k_i k_j exp(D_i - D_j):
  void* w = nullptr;  // [N, HV, Nc, C, K], (I + L)^-1 (beta exp(D) k)
  void* u = nullptr;  // [N, HV, Nc, C, V], (I + L)^-1 (beta v)

  // [N] of slot_index_type on the device, only with Problem::committed_tokens; null: all tokens.
  // final_state of sequence n is the state after its first committed_tokens[n] tokens; the count is
  // clamped to 0 .. its length, and 0 gives its initial state, or zero without one.  Later tokens
  // have outputs but change no state.
  const void* committed_tokens = nullptr;
};

// Immutable: any number of threads and streams may run one plan at once.  Runs that may execute at
// the same time each need a workspace of their own; runs of one stream may share one.  A plan must
// outlive its runs, and every graph that has captured one.  A child of fork() cannot use the driver
// that its parent had opened: let each process make its own plans.
class Plan {
 public:
  // Chooses, composes, compiles (or finds in the cache) and loads the kernels.  Blocks, for seconds
  // where it compiles.  Made again from equal arguments a plan takes microseconds: the kernels of
  // the last 64 stay loaded.
  // Fails with invalid_argument (options), invalid_problem, unsupported, no_wisdom, compile_failed
  // or device_error.
  // Plans may be made and destroyed on any thread, also while that thread or another captures a
  // stream; for Effort::measure see Options::stream.
  static Result<Plan> make(const Problem& problem, const Options& options = {});

  // The same for several problems; their kernels compile in parallel and equal ones once.
  static std::vector<Result<Plan>> make_all(std::span<const Problem> problems,
                                            const Options& options = {});

  // One that was moved from may be assigned to or destroyed, and nothing else.
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  // As given, with defaults filled in (value_heads, scale).  beta_at_most_one is false where
  // beta_is_logit is true, and qk_normalized where l2norm_qk is, as they say nothing there.
  const Problem& problem() const noexcept;

  // Bytes of device memory that a run needs, at an address that is a multiple of 256; perhaps 0,
  // and then the pointer may be null.  No initialising; the contents mean nothing between runs.
  std::size_t workspace_bytes() const noexcept;

  // Enqueues the kernels on `stream` and returns.  Never allocates, synchronises or compiles, so it
  // may be captured in a CUDA graph.  The stream is of the plan's device; that device has to be the
  // current one only for the default streams.  Outside of a capture a plan of several kernels may
  // launch them as one CUDA graph that it keeps.
  // Fails with invalid_argument or unsupported (a plan for Options::target), and then has enqueued
  // nothing, or with device_error, and then may have enqueued a part.
  // What the caller enqueues behind a run begins after the run's end, but for a kernel launched
  // programmatically: it must wait (griddepcontrol.wait) before it reads what the run writes, or
  // writes what the run reads, the workspace included.
  Status run(const Forward& forward, void* workspace, std::size_t workspace_bytes,
             Stream stream) const;

  // For people: strategy, tuning, where the choice came from, registers and shared memory a kernel.
  std::string describe() const;

  struct Impl;  // the library's own

 private:
  explicit Plan(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// ok where some strategy covers the problem on the device, else unsupported, invalid_problem,
// invalid_argument (options) or, where neither a driver nor Options::target is there, device_error.
// Compiles and loads nothing.
Status supports(const Problem& problem, const Options& options = {});

}  // namespace kda
