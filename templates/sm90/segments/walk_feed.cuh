// What the other warps of a block of the walk stage bring and take away: factors, rows of v and o,
// and q~ of every chunk.
#pragma once

#include "abi/segments.h"
#include "base/tensor.cuh"
#include "base/types.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/producer.cuh"
#include "sm90/chunk_wgmma/rows.cuh"
#include "sm90/segments/walk_part.cuh"

namespace kda {

// Rows of the block's V columns; of 64 in the first panel of a slot's rows where the other is of K
// columns.
struct ValueRows : Chain {
  static constexpr int columns = carried ? Chain::columns : 64;
};

// Where q~ of a part's chunks goes from: the other panel, or where o would lie.
class Queries {
  static constexpr u32 from_ = tune.warpgroups == 2 ? Chain::Values::panel_bytes : 0;

 public:
  static constexpr int bytes = QueryImage::panel_bytes;
  static_assert(bytes == Chain::Values::panel_bytes);

  KDA_DEVICE Queries(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                     const Task& task)
      : ring_(ring),
        exist_(part.key_tile() >= 0),
        chunks_(task.chunks),
        stride_(static_cast<i64>(args.chain.in.value_heads) * QueryImage::bytes),
        first_(static_cast<char*>(args.segments.queries) +
               (task.slot * args.chain.in.value_heads + task.head) * QueryImage::bytes +
               larger(part.key_tile(), 0) * bytes) {}

  KDA_DEVICE bool exist() const { return exist_; }
  // Whether chunk `number` has none.
  KDA_DEVICE bool have_ended(int number) const {
    const u32 left = ptx::ld_shared_u32(stop_of(ring_));
    return left != 0 && number >= chunks_ - static_cast<int>(left);
  }
  KDA_DEVICE u32 from(u32 rows) const { return rows + from_; }
  KDA_DEVICE char* to(int number) const { return first_ + number * stride_; }

 private:
  const Chain::Ring& ring_;
  bool exist_;
  int chunks_;
  i64 stride_;
  char* first_;
};

// Rows on their way through the walk: v, o and q~, by the copy engine.
struct EngineMoves {
  const chunk_wgmma::EngineRows<ValueRows>& values;
  const Queries& queries;
  bool has_values;

  KDA_DEVICE void load(int number, u32 to, u32 barrier) const {
    if (has_values) {
      values.load(number, to, barrier);
    } else if (values.leads()) {
      ptx::mbarrier_arrive(barrier);
    }
  }
  KDA_DEVICE void store(int number, u32 from) const {
    if (has_values) values.store(number, from);
    if (values.leads() && queries.exist() && !queries.have_ended(number)) {
      ptx::bulk_store(queries.to(number), queries.from(from), Queries::bytes);
    }
  }
};

// The same by hand, in a block that has V columns.
struct HandMoves {
  chunk_wgmma::Rows<ValueRows>& rows;
  const Queries& queries;
  int warp, number;

  KDA_DEVICE void store(u32 from) const {
    rows.store(from);
    if (!queries.exist() || queries.have_ended(number)) return;
    constexpr int step = 32 * Chain::row_warps * 16;  // bytes
#pragma unroll 1
    for (int at = (warp * 32 + static_cast<int>(threadIdx.x) % 32) * 16; at < Queries::bytes;
         at += step) {
      *reinterpret_cast<float4*>(queries.to(number) + at) =
          ptx::ld_shared_f32x4(queries.from(from) + at);
    }
  }
  KDA_DEVICE void next() {
    rows.next();
    ++number;
  }
};

// Whether the copy engine moves the part's rows: without V columns there is nothing but q~.
KDA_DEVICE bool by_engine(const abi::segments::Args& args, const Part& part) {
  return part.value_tile() < 0 || chunk_wgmma::by_engine<Chain>(args.rows);
}

KDA_DEVICE void move(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                     int warp) {
  const Task task = part.task(args.segments.chunks, larger(part.value_tile(), 0));
  const Queries queries(ring, args, part, task);
  if (by_engine(args, part)) {
    if (warp > 0) return;
    const chunk_wgmma::EngineRows<ValueRows> values(args.rows, task);
    const EngineMoves moves{values, queries, part.value_tile() >= 0};
    chunk_wgmma::move_rows_by_engine<Chain>(ring, moves, task.chunks, [&](int number) {
      return tune.warpgroups == 1 && queries.exist() && queries.have_ended(number);
    });
    return;
  }
  const bool vectored = chunk_wgmma::moves_more_than_one<Chain>(args.chain.in.v) &&
                        chunk_wgmma::moves_more_than_one<Chain>(args.chain.out.o);
  chunk_wgmma::Rows<ValueRows> v(args.chain.in.v, task, warp, vectored);
  chunk_wgmma::Rows<ValueRows> o(args.chain.out.o, task, warp, vectored);
  HandMoves moves{o, queries, warp, 0};
  chunk_wgmma::move_rows_by_hand<Chain>(ring, {}, v, moves, task.chunks);
}

KDA_DEVICE void produce(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                        const Task& task, int number) {
  if (number > 0) {
    move(ring, args, part, number - 1);
    return;
  }
  // A second warpgroup goes on where T has come to nothing.
  const int fed = chunk_wgmma::feed<Chain>(ring, args.chain, task, [&] {
    return tune.warpgroups == 1 && ptx::ld_shared_u32(stop_of(ring)) != 0;
  });
  if (tune.warpgroups == 1 && threadIdx.x % 32 == 0) land(ring, fed);
}

}  // namespace kda
