// A chunk's images on their way to global memory.
#pragma once

#include "abi/chunk.h"
#include "ptx/bulk.cuh"
#include "sm90/factors/group.cuh"

namespace kda {

// By one thread, from a group's buffer.
struct Leaving {
  const abi::chunk::Factors& to;
  u32 buffer;
  i64 tile;  // slot * HV + head

  KDA_DEVICE void rows() const {
    leave(to.kd, 0, Factor::bytes);
    leave(to.qd, images.qd, Factor::bytes);
    leave(to.decay, images.decay, keys * 4);
    ptx::bulk_store_commit();
  }
  KDA_DEVICE void writers() const {
    leave(to.ak, images.ak, Factor::bytes);
    leave(to.aq, images.aq, Square::bytes);
    ptx::bulk_store_commit();
  }

 private:
  KDA_DEVICE void leave(void* image, int from, int bytes) const {
    ptx::bulk_store(static_cast<char*>(image) + tile * bytes, buffer + from, bytes);
  }
};

}  // namespace kda
