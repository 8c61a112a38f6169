// The factors of a block's chunks on their way through a ring of shared-memory slots, in the order
// they are used: (Kd, v), (Qd, Aq), (Ak, decay) and perhaps the rest of Ak.  Where warps share key
// channels there are few of them, and a slot has all of a chunk, so that they meet less often.
#pragma once

#include "base/tensor.cuh"
#include "base/varlen.cuh"
#include "ptx/cp_async.cuh"
#include "sm80/chunk/recurrence_sizes.cuh"

namespace kda {

constexpr abi::chunk::Slot slot = abi::chunk::slot(shape, tune);
constexpr int slot_parts = key_warps == 1 ? parts : 1;  // slots a chunk

// Where in the slots that have them what is read lies.
constexpr int kd_at = key_warps == 1 ? 0 : image.kd;
constexpr int qd_at = key_warps == 1 ? 0 : image.qd;
constexpr int aq_at = key_warps == 1 ? slot.side : image.aq;
constexpr int ak_at = key_warps == 1 ? 0 : image.ak;
constexpr int rest_at = key_warps == 1 ? 0 : image.ak_rest;
constexpr int decay_at = key_warps == 1 ? slot.side : image.decay;
constexpr int values_at = slot.side;

// What one block works on.
struct Task {
  Sequence sequence;
  int n, head, value0;  // value0: the block's first V column
  i64 slot;             // of the sequence's first chunk
};

class Ring {
 public:
  KDA_DEVICE Ring(char* memory, const abi::chunk::RecurrenceArgs& args, const Task& task)
      : memory_(memory),
        token_(args.in.v.token),
        image_(args.factors.images + (task.slot * args.in.value_heads + task.head) * image.bytes +
               own_byte()),
        image_step_(args.in.value_heads * static_cast<i64>(image.bytes)),
        rows_(static_cast<const storage<type>*>(args.in.v.data) +
              offset_of<shape.varlen>(args.in.v, task.n, task.sequence.begin, task.head) +
              task.value0),
        left_(task.sequence.length()),
        columns_left_(values - task.value0),
        vectored_(is_vectored<type>(args.in.v, values)) {
    load_first<tune.load_stages - 1>();
  }

  // Waits for the next part, `part` of its chunk, frees the slot before it and starts the next load
  // into that.
  template <int part>
  KDA_DEVICE char* next() {
    ptx::cp_async_wait<tune.load_stages - 2>();
    __syncthreads();
    load<(part + tune.load_stages - 1) % slot_parts>();
    char* const found = memory_ + taken_ * slot.bytes;
    taken_ = after(taken_);
    return found;
  }

 private:
  static constexpr int unit = 16 / abi::bytes_of(type);  // elements in 16 bytes

  static KDA_DEVICE int own_byte() { return static_cast<int>(threadIdx.x) * 16; }
  static KDA_DEVICE int after(int number) {
    return number + 1 == tune.load_stages ? 0 : number + 1;
  }

  // The first `count` parts of the sequence.
  template <int count>
  KDA_DEVICE void load_first() {
    if constexpr (count > 0) {
      load_first<count - 1>();
      load<(count - 1) % slot_parts>();
    }
  }

  // The next part, `part` of its chunk, into the next slot.
  template <int part>
  KDA_DEVICE void load() {
    if (left_ > 0) {
      char* to = memory_ + filled_ * slot.bytes;
      if constexpr (key_warps > 1 && image.kd - image.aq == Square::bytes) {
        copy<image.bytes>(to, image_);
      } else if constexpr (key_warps > 1) {  // nothing is written between Aq and Kd
        copy<image.aq + Square::bytes>(to, image_);
        copy<image.bytes - image.kd>(to + image.kd, image_ + image.kd);
      } else if constexpr (part == 0) {
        copy<Factor::bytes>(to + kd_at, image_ + image.kd);
      } else if constexpr (part == 1) {
        copy<Factor::bytes>(to + qd_at, image_ + image.qd);
        copy<Square::bytes>(to + aq_at, image_ + image.aq);
      } else if constexpr (part == 2) {
        copy<Writer::bytes>(to + ak_at, image_ + image.ak);
        copy<Factor::width * 4>(to + decay_at, image_ + image.decay);
      } else {
        copy<Writer::bytes>(to + rest_at, image_ + image.ak_rest);
      }
      if constexpr (part == 0) copy_values(Values(to + values_at));
    }
    ptx::cp_async_commit();
    filled_ = after(filled_);
    if constexpr (part == slot_parts - 1) {
      image_ += image_step_;
      rows_ += chunk * token_;
      left_ -= chunk;
    }
  }

  // from: where this thread's first 16 bytes are.
  template <int bytes>
  static KDA_DEVICE void copy(char* to, const char* from) {
    constexpr int round = threads * 16;
    const u32 own_to = ptx::shared_address(to) + own_byte();
#pragma unroll(keys16 > 128 && key_warps == 1 ? 1 : 16)
    for (int at = 0; at < bytes; at += round) {
      if (at + round <= bytes || at + own_byte() < bytes) ptx::cp_async_16(own_to + at, from + at);
    }
  }

  // Rows past the sequence and columns past V become zero and are never read.
  KDA_DEVICE void copy_values(const Values& tile) const {
    if (vectored_) {
      for (int i = threadIdx.x; i < chunk * columns / unit; i += threads) {
        const int row = i / (columns / unit);
        const int column = i % (columns / unit) * unit;
        if (row < left_ && column < columns_left_) {
          ptx::cp_async_16(tile.address(row, column), rows_ + row * token_ + column);
        } else {
          *reinterpret_cast<uint4*>(tile.data + Values::at(row, column)) = make_uint4(0, 0, 0, 0);
        }
      }
    } else {
      for (int i = threadIdx.x; i < chunk * columns; i += threads) {
        const int row = i / columns;
        const int column = i % columns;
        tile(row, column) =
            row < left_ && column < columns_left_ ? rows_[row * token_ + column] : storage<type>(0);
      }
    }
  }

  char* const memory_;
  const i64 token_;            // of v: elements to the next row
  const char* image_;          // of the chunk that is loaded next, this thread's first bytes
  const i64 image_step_;       // to the next chunk's
  const storage<type>* rows_;  // its v, the block's first column
  i64 left_;                   // tokens from there on
  const int columns_left_;
  const bool vectored_;
  int filled_ = 0;  // the slots that are filled and read next
  int taken_ = 0;
};

}  // namespace kda
