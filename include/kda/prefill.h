/* The interface of the first CUDA kda_prefill, on this library: programs written for it run
   unchanged.

   Tensors are f32 and contiguous, in memory of the current context's device, or of device 0 where
   none is current.  q and k are L2-normalised inside, the scale is K^-0.5, beta is taken as given,
   the decay of each token and channel is sigmoid(g), and states start at zero.  w and u are the WY
   tensors of kda::Forward; either may be null.

   There is no workspace argument, as in the original: each device has a pool of the library's own,
   which allocates in the stream's order and keeps up to 1 GiB between calls.  The first call of a
   size compiles, which takes seconds.  Every call may be captured, that one too; the kernels of a
   captured call stay loaded until the process ends. */
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

/* Enqueues on the stream and returns a cudaError_t, whose reason kda_last_message() of kda/kda.h
   has: 0; 1 for arguments that are null, misaligned or contradict each other, or a variable below
   that is no fit; 801 where nothing serves them (a chunk_size of 8, say); 218 where NVRTC is
   missing or refused; 35 without a driver; 2 where the host has no memory; 999 for other failures
   that have no number; else what the driver returned.  T = 0 returns 0 and enqueues nothing.

   Three variables force the tuning, and strategy chunk with it: KDA_INTRA_THREADS and
   KDA_INTER_THREADS are the threads of a block of the stage inside the chunks and of that across
   them, KDA_INTER_SHARDS is how many blocks share one head's V, which it must divide. */
int kda_prefill_f32(const KdaPrefillIO* io, struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif /* KDA_PREFILL_H_ */
