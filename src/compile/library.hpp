// libnvrtc itself: where it is found, and the calls we use.
#pragma once

#include <nvrtc.h>

#include <string>

#include "kda/status.hpp"

namespace kda::compile {

// The oldest release that knows every flag we pass.
constexpr int kOldestMajor = 12;
constexpr int kOldestMinor = 4;

// One field a function; names as in nvrtc.h without the nvrtc.
struct Nvrtc {
  decltype(&::nvrtcVersion) Version;
  decltype(&::nvrtcGetErrorString) GetErrorString;
  decltype(&::nvrtcCreateProgram) CreateProgram;
  decltype(&::nvrtcDestroyProgram) DestroyProgram;
  decltype(&::nvrtcCompileProgram) CompileProgram;
  decltype(&::nvrtcGetProgramLogSize) GetProgramLogSize;
  decltype(&::nvrtcGetProgramLog) GetProgramLog;
  decltype(&::nvrtcGetCUBINSize) GetCUBINSize;
  decltype(&::nvrtcGetCUBIN) GetCUBIN;
  decltype(&::nvrtcGetPTXSize) GetPTXSize;
  decltype(&::nvrtcGetPTX) GetPTX;

  int major = 0, minor = 0;
  std::string path;   // as the loader names it
  std::string build;  // as compile/probe.hpp reads it; empty where the path was expected
};

// Opened on first use, once a process, and never closed: the first that compiles an empty program.
// `expected` non-empty: from this path alone, and trusted to.  Fails with compile_failed, listing
// what was tried.
Result<const Nvrtc*> open_nvrtc(const std::string& expected = {});

bool nvrtc_is_open();

// All that decides which library open_nvrtc() would choose, as text, without opening one.
std::string search_inputs();

}  // namespace kda::compile
