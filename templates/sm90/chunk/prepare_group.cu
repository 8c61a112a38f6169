// Strategy chunk, stage 1 on sm_90: as sm80/chunk/prepare.cu, one group of 4 warps a (chunk, value
// head).  Images are made in shared memory (sm90/factors) and leave by bulk copies.
#include "abi/factors.h"
#include "base/tensor.cuh"
#include "base/varlen.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "sm90/factors/factors.cuh"

namespace kda {

// Rows of K elements to shared memory in 16-byte units, or element by element where the tensor's
// layout asks for it; missing rows as zeros.  swizzled: as a Factor image, else row after row.
template <abi::DType element_type, bool swizzled>
KDA_DEVICE void load_rows(u32 to, const abi::Tensor& tensor, i64 offset, int rows) {
  constexpr int size = abi::bytes_of(element_type);
  constexpr int row_units = keys * size / 16;
  constexpr int rows_at_once = abi::factors::threads / row_units;
  const int thread = threadIdx.x;
  const auto at = [&](int row, int column) {
    return to + (swizzled ? Factor::at(static_cast<u32>(row), static_cast<u32>(column))
                          : static_cast<u32>((row * keys + column) * size));
  };
  if (is_vectored<element_type>(tensor, keys)) {
    const int column = thread % row_units * (16 / size);
    const int row0 = thread / row_units;
    const char* from =
        static_cast<const char*>(tensor.data) + (offset + row0 * tensor.token + column) * size;
    const i64 stride = tensor.token * (rows_at_once * size);
#pragma unroll
    for (int i = 0; i < chunk / rows_at_once; ++i) {
      const int row = row0 + i * rows_at_once;
      const bool there = row < rows;
      ptx::cp_async_16_or_zero(at(row, column), there ? from : tensor.data, there);
      from += stride;
    }
    return;
  }
  using Word = storage<element_type>;
  const auto* from = static_cast<const Word*>(tensor.data) + offset;
#pragma unroll 1
  for (int i = thread; i < chunk * keys; i += abi::factors::threads) {
    const int row = i / keys;
    const int column = i % keys;
    const Word x = row < rows ? from[row * tensor.token + column] : Word(0);
    if constexpr (size == 4) {
      ptx::st_shared_f32(at(row, column), x);
    } else {
      ptx::st_shared_u16(at(row, column), x);
    }
  }
}

extern "C" __global__ void __launch_bounds__(abi::factors::threads, 4)
    kda_chunk_prepare_group(const __grid_constant__ abi::chunk::PrepareArgs args) {
  extern __shared__ __align__(1024) char shared[];

  const abi::Inputs& in = args.in;
  const int head = static_cast<int>(blockIdx.y);
  const i64 slot = blockIdx.x;
  const int n = sequence_at<shape.varlen, shape.cu_seqlens_type>(in, slot, chunk);
  const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
  const i64 first = (slot - first_slot(sequence.begin, n, chunk)) * chunk;  // within the sequence
  if (first < 0 || first >= sequence.length()) return;                      // an empty slot
  const i64 left = sequence.length() - first;
  const int rows = static_cast<int>(left < chunk ? left : chunk);

  const int thread = static_cast<int>(threadIdx.x);
  const u32 address = ptx::shared_address(shared);
  const auto origin = [&](const abi::Tensor& tensor, int h) {
    return offset_of<shape.varlen>(tensor, n, sequence.begin, h) + first * tensor.token;
  };
  const int qk_head = head / shape.group;
  load_rows<shape.gate_type, false>(address + images.ak, in.g, origin(in.g, head), rows);
  load_rows<type, true>(address, in.k, origin(in.k, qk_head), rows);
  load_rows<type, true>(address + images.qd, in.q, origin(in.q, qk_head), rows);
  Scratch& scratch = *reinterpret_cast<Scratch*>(shared + abi::factors::buffer_bytes(shape));
  if (thread < chunk) {
    scratch.beta[thread] = thread < rows
                               ? step::write_strength<shape>(load<shape.beta_type>(
                                     in.beta.data, origin(in.beta, head) + thread * in.beta.token))
                               : 0.0F;
  }
  const Gates gates = Gates::of(in, head);
  ptx::cp_async_wait_all();
  __syncthreads();

  Factors(scratch).make(shared, address, gates, rows);

  if (thread == 0) {
    const i64 tile = slot * in.value_heads + head;
    const auto leave = [&](void* to, int from, int bytes) {
      ptx::bulk_store(static_cast<char*>(to) + tile * bytes, address + from, bytes);
    };
    leave(args.factors.kd, 0, Factor::bytes);
    leave(args.factors.qd, images.qd, Factor::bytes);
    leave(args.factors.ak, images.ak, Factor::bytes);
    leave(args.factors.aq, images.aq, Square::bytes);
    leave(args.factors.decay, images.decay, keys * 4);
    ptx::bulk_store_wait();
  }
}

}  // namespace kda
