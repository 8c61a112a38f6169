// The WY tensors of a chunk: w = M (beta Kd), u = M (beta v), rows past the sequence
// zero.  In f32 multiply-adds: who asks for them wants them exact, and they are small work.
#pragma once

#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"

namespace kda::wy {

// out [C, width] = M diag(beta) x, x(j, c) being row j of column c.  A thread takes a column of 8
// rows at a time.
template <abi::DType type, int chunk, int threads, class Matrix, class Rows>
KDA_DEVICE void write_product(void* out, i64 base, int width, const Matrix& m, const float* beta,
                              const Rows& x) {
  for (int item = static_cast<int>(threadIdx.x); item < width * (chunk / 8); item += threads) {
    const int c = item % width;
    const int row = item / width * 8;
    float sum[8] = {};
#pragma unroll(chunk == 64 ? 1 : 4)  // loads in flight; more would spill
    for (int j = 0; j < row + 8; ++j) {
      const float value = beta[j] * x(j, c);
#pragma unroll
      for (int r = 0; r < 8; ++r) sum[r] += m(row + r, j) * value;  // M is zero above its diagonal
    }
#pragma unroll
    for (int r = 0; r < 8; ++r)
      store<type>(out, base + (row + r) * static_cast<i64>(width) + c, sum[r]);
  }
}

// kd: the chunk's image of k exp(P), written by this block.  first: the chunk's first token within
// sequence n, `rows` its tokens.
template <abi::Shape shape, int chunk, int threads, class Factor, class Matrix>
KDA_DEVICE void write(void* w, void* u, const abi::Inputs& in, const char* kd, const Matrix& m,
                      const float* beta, int n, int head, i64 first, int rows) {
  constexpr abi::DType type = shape.qkv_type;
  const i64 chunks = (in.length + chunk - 1) / chunk;
  const i64 row0 = ((static_cast<i64>(n) * in.value_heads + head) * chunks + first / chunk) * chunk;
  if (w != nullptr) {
    write_product<type, chunk, threads>(
        w, row0 * shape.key_dim, shape.key_dim, m, beta,
        [&](int j, int c) { return load<type>(kd + Factor::at(j, c), 0); });
  }
  if (u != nullptr) {
    const i64 v = offset_of<shape.varlen>(in.v, n, 0, head) + first * in.v.token;
    write_product<type, chunk, threads>(
        u, row0 * shape.value_dim, shape.value_dim, m, beta, [&](int j, int c) {
          return j < rows ? load<type>(in.v.data, v + j * in.v.token + c) : 0.0F;
        });
  }
}

}  // namespace kda::wy
