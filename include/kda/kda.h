/* Kimi Delta Attention for C and for bindings: the library of kda.hpp behind a stable ABI.

     kda_problem problem;
     kda_problem_init(&problem);
     problem.heads = 16, problem.value_heads = 64, problem.max_tokens = 8192;
     kda_plan* plan = NULL;
     if (kda_plan_make(&problem, NULL, &plan) != KDA_OK) puts(kda_last_message());

   (1) kda_plan is opaque; the other structs are plain.  Fill them with kda_*_init, then change what
       you need.  A field's meaning, shape, unit and default are those of the same name in kda.hpp
       and state_pool.hpp; enums and truth values are int32_t unless they say otherwise, truth 0
       or 1.
   (2) Structs that begin with struct_size grow at their end, so a program and a library of
       different age work together.  Fields that the library does not know must be zero, else
       KDA_UNSUPPORTED; those that the program does not know have their defaults, which for later
       fields is zero.  A struct_size below the first release's or above 4096 is refused.  Structs
       inside these (kda_strides, kda_index_table, kda_state_pool) never change.
   (3) A call that can fail returns a kda_code.  kda_last_message() is the message of the last call
       that failed on this thread, "" before the first, and stays valid until the next one fails
       there; a call that succeeds leaves it.
   (4) Nothing throws across this boundary.  Only plans need destroying; strings that are returned
       belong to the library. */
#ifndef KDA_KDA_H_
#define KDA_KDA_H_

#include <stddef.h>
#include <stdint.h>

#define KDA_VERSION 100 /* of this header: major * 10000 + minor * 100 + patch */

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream both point at this */
typedef struct kda_plan kda_plan;

typedef enum kda_code {
  KDA_OK = 0,
  KDA_INVALID_ARGUMENT,
  KDA_INVALID_PROBLEM,
  KDA_UNSUPPORTED,
  KDA_NO_WISDOM,
  KDA_COMPILE_FAILED,
  KDA_DEVICE_ERROR
} kda_code;
typedef enum kda_dtype { KDA_F32 = 0, KDA_BF16, KDA_F16 } kda_dtype;
typedef enum kda_index { KDA_I32 = 0, KDA_I64 } kda_index;
typedef enum kda_gate {
  KDA_GATE_LOG_DECAY = 0,
  KDA_GATE_SOFTPLUS,
  KDA_GATE_BOUNDED,
  KDA_GATE_LOGSIGMOID
} kda_gate;
typedef enum kda_state_layout { KDA_STATE_KEY_FIRST = 0, KDA_STATE_VALUE_FIRST } kda_state_layout;
typedef enum kda_effort { KDA_WISDOM_ONLY = 0, KDA_ESTIMATE, KDA_MEASURE } kda_effort;
typedef enum kda_cache_mode {
  KDA_CACHE_BY_ENVIRONMENT = 0,
  KDA_CACHE_OFF,
  KDA_CACHE_READ_ONLY,
  KDA_CACHE_READ_WRITE
} kda_cache_mode;
typedef enum kda_log_level {
  KDA_LOG_TRACE = 0,
  KDA_LOG_DEBUG,
  KDA_LOG_INFO,
  KDA_LOG_WARN,
  KDA_LOG_ERROR,
  KDA_LOG_OFF
} kda_log_level;

typedef struct kda_problem {
  size_t struct_size;
  int32_t heads, value_heads, key_dim, value_dim;
  int64_t max_tokens;
  int32_t max_sequences, varlen, cu_seqlens_type;
  int32_t qkv_type, gate_type, beta_type, state_type;
  int32_t gate;
  float lower_bound;
  int32_t beta_is_logit, allow_neg_eigval, l2norm_qk;
  float scale;
  int32_t state_layout, initial_state, final_state;
  int32_t state_pool, slot_index_type, draft_states, checkpoint_tokens, zero_padding, mixed_lengths;
  int32_t wy_chunk;
  int64_t committed_tokens; /* 0 or 1; as wide as lets the struct grow past its padding */
  int64_t beta_at_most_one; /* likewise */
  int64_t qk_normalized;    /* likewise */
} kda_problem;

typedef struct kda_options { /* strings: NULL is the empty default; copied */
  size_t struct_size;
  int32_t device, effort;
  double time_limit_seconds;
  struct CUstream_st* stream;
  const char *target, *cache_dir, *wisdom_dir, *strategy, *tuning;
  int32_t cache_mode;
} kda_options;

typedef struct kda_strides {
  int64_t sequence, token, head;
} kda_strides;

typedef struct kda_index_table {
  const void* data;
  int32_t columns;
  int64_t stride;
} kda_index_table;

typedef struct kda_state_pool {
  int64_t slots, stride;
  kda_index_table indices;
  const void *initial_indices, *num_accepted_tokens;
  kda_index_table checkpoints;
} kda_state_pool;

typedef struct kda_forward {
  size_t struct_size;
  int64_t tokens;
  int32_t sequences;
  const void *cu_seqlens, *q, *k, *v, *g, *beta;
  const float *A_log, *dt_bias;
  const void* initial_state;
  void *o, *final_state;
  kda_strides q_strides, k_strides, v_strides, g_strides, beta_strides, o_strides;
  kda_state_pool pool;
  void *w, *u;
  const void* committed_tokens;
} kda_forward;

/* Write the defaults into the struct_size bytes of a struct, its own struct_size among them.
   kda_*_init below pass sizeof; call these where a binding has its own size.  NULL is ignored. */
void kda_problem_init_sized(kda_problem* problem, size_t struct_size);
void kda_options_init_sized(kda_options* options, size_t struct_size);
void kda_forward_init_sized(kda_forward* forward, size_t struct_size);

static inline void kda_problem_init(kda_problem* problem) {
  kda_problem_init_sized(problem, sizeof *problem);
}
static inline void kda_options_init(kda_options* options) {
  kda_options_init_sized(options, sizeof *options);
}
static inline void kda_forward_init(kda_forward* forward) {
  kda_forward_init_sized(forward, sizeof *forward);
}

/* kda::supports: KDA_OK where some strategy covers the problem.  options may be NULL here and
   below. */
kda_code kda_supports(const kda_problem* problem, const kda_options* options);

/* Plan::make; *plan is NULL unless this returns KDA_OK. */
kda_code kda_plan_make(const kda_problem* problem, const kda_options* options, kda_plan** plan);

/* Plan::make_all for `count` problems: fills plans[count] and, unless NULL, codes[count].  plans[i]
   is NULL where codes[i] is not KDA_OK; others are made, and the caller's to destroy, even where
   this fails.  Returns the first code that is not KDA_OK, and kda_last_message() is its message. */
kda_code kda_plan_make_all(const kda_problem* const* problems, size_t count,
                           const kda_options* options, kda_plan** plans, kda_code* codes);

/* Not before its runs have ended, and graphs that captured one are gone.  NULL is ignored. */
void kda_plan_destroy(kda_plan* plan);

/* Plan::problem: as given, with defaults filled in.  problem->struct_size must be set, as by
   kda_problem_init. */
kda_code kda_plan_problem(const kda_plan* plan, kda_problem* problem);
size_t kda_plan_workspace_bytes(const kda_plan* plan);
kda_code kda_plan_run(const kda_plan* plan, const kda_forward* forward, void* workspace,
                      size_t workspace_bytes, struct CUstream_st* stream);
const char* kda_plan_describe(const kda_plan* plan); /* lives as long as the plan */

/* kda::set_log: text has no newline; a NULL sink is stderr.  The sink must not call kda. */
typedef void (*kda_log_sink)(int32_t level, const char* text, void* user);
kda_code kda_set_log(int32_t level, kda_log_sink sink, void* user);

/* kda::add_bundle of bundle.hpp: the bytes must stay unchanged until the process ends. */
kda_code kda_add_bundle(const void* bundle, size_t bytes);

const char* kda_last_message(void);
const char* kda_code_name(int32_t code); /* "invalid_argument" */
int32_t kda_version(void);               /* KDA_VERSION of the library in use */

#ifdef __cplusplus
}
#endif

#endif /* KDA_KDA_H_ */
