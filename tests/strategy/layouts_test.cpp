// Every stride and alignment, NaN wherever nothing should be read, and cu_seqlens that lie.
#include <limits>

#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

std::vector<Trial> strides() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* size : {"K=64 V=64 ", "K=60 V=100 ", "K=128 V=128 "})
      for (const Layout layout :
           {Layout::contiguous, Layout::heads_first, Layout::sliced, Layout::gapped})
        for (const int misaligned : {0, 1}) {
          Trial one = trial(all_types(type) + size + "H=2 HV=4", {75, 75});
          one.layout = layout;
          one.misaligned = misaligned;
          out.push_back(one);
          one.problem.varlen = true;
          one.lengths = {75, 0, 33};
          out.push_back(one);
        }
  return out;
}

// The bug: o leaves a chain from where v lay.  Where one of them could move 16 bytes at a time and
// the other not, a lane brought the next v to where another had not read o yet.
std::vector<Trial> one_aligned() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* size : {"K=128 V=128 ", "K=64 V=64 ", "K=128 V=256 "})
      for (const int misaligned : {0, 1}) {
        Trial one = trial(all_types(type) + size + "H=2 HV=4", {500, 500});
        one.misaligned = misaligned;
        one.misaligned_o = misaligned == 0 ? 1 : 7;  // then o alone lies on 16 bytes, if of 2 each
        out.push_back(one);
      }
  return out;
}

// Inputs past the last sequence are NaN; outputs there stay as they were.
std::vector<Trial> tails() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* index : {"cu_seqlens=i32 ", "cu_seqlens=i64 "})
      for (const std::int64_t tail : {1, 40, 300}) {
        Trial one = trial(all_types(type) + index, {33, 0, 64, 5});
        one.tail = tail;
        out.push_back(one);
        one.lengths = {0, 0};
        out.push_back(one);
      }
  return out;
}

// Contents that break their promise: results may be anything, memory outside the tensors may not.
std::vector<Trial> bad_cu_seqlens() {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::vector<std::int64_t>> contents = {
      {0, 60, 30, 100}, {0, 40, 80, 5000},       {0, -20, 50, 100},  {0, 40, 80, kHuge},
      {50, 20, 10, 0},  {-kHuge, 0, kHuge, 100}, {100, 100, 100, 0}, {5000, 6000, 7000, 8000},
      {-5, -4, -3, -2}, {0, kHuge, -kHuge, 100}, {90, 95, 99, 101},
  };
  std::vector<Trial> out;
  for (const char* type : {"bf16", "f32"})
    for (const char* index : {"cu_seqlens=i32 ", "cu_seqlens=i64 "})
      for (const std::vector<std::int64_t>& values : contents) {
        Trial one = trial(all_types(type) + index, {40, 40, 20});
        one.cu_seqlens = values;
        out.push_back(one);
        if (one.problem.cu_seqlens_type == Index::i32) continue;
        for (std::int64_t& value : one.cu_seqlens)
          if (value == kHuge || value == -kHuge) value *= std::int64_t{1} << 32;
        out.push_back(one);
      }
  return out;
}

}  // namespace

KDA_SWEEP("strides and alignment", strides)
KDA_SWEEP("o or v alone on 16 bytes", one_aligned)
KDA_SWEEP("tokens past the last sequence", tails)
KDA_SWEEP("bad cu_seqlens", bad_cu_seqlens)
