// What a compiled kernel needs of a multiprocessor, read from ptxas's report.
#pragma once

#include <string>
#include <string_view>

namespace kda::compile {

struct Resources {
  int registers = 0;    // a thread
  int spill_bytes = 0;  // stores + loads, a thread
  int stack_bytes = 0;  // local frame, a thread
  int static_shared_bytes = 0;
  // 1: ptxas has each of its wgmma wait for the one before, which costs up to half of the speed.
  int serialized_wgmma = 0;
  double compile_milliseconds = 0;
};

// From NVRTC's log of --ptxas-options=-v.
Resources parse_resources(std::string_view log, std::string_view entry);

}  // namespace kda::compile
