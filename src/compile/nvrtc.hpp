// NVRTC, opened at run time: source and headers to a cubin.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/resources.hpp"
#include "kda/status.hpp"

namespace kda::compile {

struct Header {
  const char* name;
  const char* text;
};

struct Job {
  std::string source;
  std::string entry;                 // the extern "C" kernel it must define
  std::string target;                // "sm_90a"
  std::vector<std::string> options;  // as options() gives
};

struct Build {
  std::string cubin;  // an ELF image for Job::target
  std::string log;
  Resources resources;
};

// The flags for a target, in order; a part of the cache key.  Any NVRTC takes them, so that none
// need be there to ask for them.
std::vector<std::string> options(std::string_view target);

// Fails with compile_failed: NVRTC is missing (paths tried, what would do), too old, or refused the
// source (its whole log).  Any number of threads at once.
Result<Build> compile(const Job& job, std::span<const Header> headers);

// The same source to PTX text, for people (kda-tune dump).
Result<std::string> compile_to_ptx(const Job& job, std::span<const Header> headers);

// Which compiler would run: its release and build, e.g. "nvrtc 13.0 CL-36424714 V13.0.88".  A part
// of the cache key.  Fails as compile does.
Result<std::string> identity();

// The same once it is open, after which it is not another one: where its files were replaced since
// identity() was asked, what came in their place.
Result<std::string> open_identity();

// Where NVRTC was found, for people (kda-tune doctor).
Result<std::string> library_path();

}  // namespace kda::compile
