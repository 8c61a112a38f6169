/* The interface of the first CUDA kda_prefill, on this library: programs written for it run
   unchanged.

   f32, contiguous device memory.  True KDA with q and k L2-normalised inside, scale K^-0.5, beta as
   given, the decay of a token and channel sigmoid(g), and zero states to start from.  w and u are
   the chunks' WY tensors, those of kda::Forward; either may be null.

   Where the original took no workspace, neither does this: it comes from a pool of the library's
   own, ordered on the stream, which keeps up to 1 GiB between calls.  The first call of a size
   compiles, which takes seconds; all calls, that one too, may be captured. */
#ifndef KDA_PREFILL_H_
#define KDA_PREFILL_H_

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

typedef struct KdaPrefillIO {
  const float* q;    /* [B, H, T, K] */
  const float* k;    /* [B, H, T, K] */
  const float* v;    /* [B, H, T, V] */
  const float* g;    /* [B, H, T, K], logits */
  const float* beta; /* [B, H, T] */
  float* w;          /* [B, H, Nc, C, K] or null, written */
  float* u;          /* [B, H, Nc, C, V] or null, written */
  float* o;          /* [B, H, T, V], written */
  int batch_size;    /* B */
  int num_heads;     /* H */
  int seq_len;       /* T */
  int head_dim;      /* K */
  int value_dim;     /* V */
  int chunk_size;    /* C: 16, 32 or 64 */
  int num_chunks;    /* Nc = T / C rounded up, or 0 for that */
} KdaPrefillIO;

/* Enqueues on the stream and returns a cudaError_t: 0; 1 for arguments that contradict each other,
   801 for ones that nothing here serves, 218 where NVRTC is missing or refused, the driver's own
   otherwise (35: there is none).  kda_last_message() of kda/kda.h says why.

   KDA_INTRA_THREADS and KDA_INTER_THREADS force the threads a block of the two stages, and
   KDA_INTER_SHARDS how many blocks share one head's V, which it must divide. */
int kda_prefill_f32(const KdaPrefillIO* io, struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif /* KDA_PREFILL_H_ */
