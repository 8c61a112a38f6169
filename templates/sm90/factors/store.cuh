// A chunk's image on its way to global memory.
#pragma once

#include "abi/chunk.h"
#include "ptx/bulk.cuh"
#include "sm90/factors/group.cuh"

namespace kda {

// By one thread, from a group's buffer: whole, or what is ready before Ak and Aq and then those.
struct Leaving {
  const abi::chunk::Factors& to;
  u32 buffer;
  i64 tile;  // slot * HV + head

  KDA_DEVICE void whole() const {
    leave(0, image.bytes);
    ptx::bulk_store_commit();
  }
  KDA_DEVICE void rows() const {
    leave(image.qd, Factor::bytes);
    leave(image.kd, Factor::bytes);
    leave(image.decay, keys * 4);
    ptx::bulk_store_commit();
  }
  KDA_DEVICE void writers() const {
    leave(image.aq, Square::bytes);
    leave(image.ak, Factor::bytes);
    ptx::bulk_store_commit();
  }

 private:
  KDA_DEVICE void leave(int from, int bytes) const {
    ptx::bulk_store(to.images + tile * image.bytes + from, buffer + from, bytes);
  }
};

}  // namespace kda
