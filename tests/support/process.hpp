// A forked child for a scope: what must not happen to the test program happens to it.
#pragma once

#include <sys/types.h>

#include <functional>

namespace kda::test {

class Child {
 public:
  // The body's value is the exit code; 70 when it throws, 71 when it takes longer than a minute.
  explicit Child(const std::function<int()>& body);
  ~Child();  // kills it, unless it was waited for
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  void signal(int number) const;
  // Until it stops itself; false when it ended instead.
  bool wait_for_stop();
  // Exit code; 128 + n when signal n ended it.
  int wait();

 private:
  pid_t id_ = -1;
};

// A child's exit code.
inline int in_child(const std::function<int()>& body) { return Child(body).wait(); }

}  // namespace kda::test
