// A chunk's image on its way to global memory.
#pragma once

#include "abi/chunk.h"
#include "ptx/bulk.cuh"
#include "ptx/flag.cuh"
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
    static_assert(!abi::chunk::writes_twice(shape) || image.ak_rest == image.ak + Factor::bytes);
    leave(image.aq, Square::bytes);
    leave(image.ak, abi::chunk::writes_twice(shape) ? 2 * Factor::bytes : Factor::bytes);
    ptx::bulk_store_commit();
  }

 private:
  KDA_DEVICE void leave(int from, int bytes) const {
    ptx::bulk_store(to.images + tile * image.bytes + from, buffer + from, bytes);
  }
};

// The images of a group that walks, and where others run beside it the flags that say that they
// have arrived; by one thread.
class Departures {
 public:
  KDA_DEVICE Departures(Departure& memory, const abi::chunk::Factors& to, u32 buffer)
      : at_(memory), to_(to), buffer_(buffer) {}

  KDA_DEVICE void begin() { at_ = {}; }
  // The tile that will leave next: slot * HV + head.
  KDA_DEVICE void take(i64 tile, u32* flag) {
    at_.tile = tile;
    at_.flag = flag;
    ++at_.number;
  }
  // Its rows, in whose place the next tile's may be loaded then.  The image before has arrived by
  // now, so that its flag rises where nobody waits for it.
  KDA_DEVICE void rows() {
    raise();
    leaving().rows();
    ptx::bulk_store_wait_read();
  }
  // The rest.  The chains wait for a first tile.
  KDA_DEVICE void writers() {
    leaving().writers();
    if constexpr (tune.flags == 0) return;
    at_.last_flag = at_.flag;
    if (at_.number == 1) raise();
  }
  KDA_DEVICE void end() {
    ptx::bulk_store_wait();
    raise();
  }

 private:
  KDA_DEVICE Leaving leaving() const { return {to_, buffer_, at_.tile}; }
  // Of the last image that has left.  What copies wrote is visible to who has waited for them.
  KDA_DEVICE void raise() {
    if (tune.flags == 0 || at_.last_flag == nullptr) return;
    ptx::bulk_store_wait();
    ptx::release(at_.last_flag, 1);
    at_.last_flag = nullptr;
  }

  Departure& at_;
  const abi::chunk::Factors& to_;
  u32 buffer_;
};

}  // namespace kda
