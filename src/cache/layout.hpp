// Where things lie in a cache directory:
//
//   <root>/CACHEDIR.TAG              tells backups to pass
//   <root>/toolchain.txt             compile/toolchain's note
//   <root>/v1/objects/ab/ab12...kdo  an entry, named by its key's digest
//   <root>/v1/tmp/                   half-written ones
//   <root>/v1/bad/                   damaged ones, for a look
//   <root>/v1/locks/ab.lock          held by the process that builds such a key; never removed
//   <root>/wisdom/v1/tmp/            half-written measurements (tune/wisdom.hpp), where they lie so
#pragma once

#include <string>
#include <vector>

namespace kda::cache {

class Layout {
 public:
  explicit Layout(std::string root) : root_(std::move(root)) {}

  std::string tag() const { return root_ + "/CACHEDIR.TAG"; }
  std::string objects() const { return root_ + "/v1/objects"; }
  std::string temporary() const { return root_ + "/v1/tmp"; }
  std::string wisdom_temporary() const { return root_ + "/wisdom/v1/tmp"; }
  std::string bad() const { return root_ + "/v1/bad"; }
  std::string locks() const { return root_ + "/v1/locks"; }

  std::string entry(const std::string& digest) const {
    return objects() + "/" + digest.substr(0, 2) + "/" + digest + ".kdo";
  }

  // The files there are, as paths; empty where the directory cannot be read.  Links below the root
  // are not followed.
  std::vector<std::string> entries() const;
  std::vector<std::string> temporaries() const;
  std::vector<std::string> set_aside() const;

  // What keeps entries() from seeing all there are; empty: nothing, or there is no such cache.
  std::string trouble() const;
  // Its two parts.  Behind a link entry() leads to entries that entries() passes by; a folder that
  // cannot be listed hides its entries from both.
  std::string link_trouble() const;
  std::string list_trouble() const;

 private:
  // What is in a directory below that folder of the root.
  std::vector<std::string> below(const char* folder, const std::string& directory) const;

  std::string root_;
};

}  // namespace kda::cache
