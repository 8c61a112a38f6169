// A lock between processes that the kernel lets go when its holder dies, whoever was forked from
// it.
#pragma once

#include <string>

namespace kda::base::file {

// An flock() on a file of its own, which is made where it is missing and never removed.
class Lock {
 public:
  Lock() = default;
  ~Lock() { release(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // 0; EWOULDBLOCK while another holds it (a thread of this process as well); or what went wrong.
  int try_acquire(const std::string& path);
  void release() noexcept;
  bool held() const noexcept { return fd_ >= 0 && !is_inherited(); }

 private:
  // A child of fork() has let go of its copy already, and the parent's is not its to unlock.
  bool is_inherited() const noexcept;

  int fd_ = -1;
  unsigned forks_ = 0;  // base::forks() of who took it
};

// Who wrote itself into the lock's file: "process 123 on host"; empty when nobody did.
std::string holder_of(const std::string& path);

// Whether flock() is known to be good on the filesystem that holds the path, which is not so for
// network filesystems.
bool locks_work(const std::string& path);

}  // namespace kda::base::file
