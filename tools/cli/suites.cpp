#include "cli/suites.hpp"

#include <fmt/format.h>

#include "cli/failure.hpp"
#include "reference/tensors.hpp"

namespace kda::cli {

std::vector<Subject> suite(const std::vector<std::string>& regimes) {
  std::vector<std::string> wanted = regimes;
  if (wanted.empty()) wanted = {"strong", "weak", "mixed"};
  std::vector<Subject> subjects;
  for (const reference::Case& row : reference::cases()) {
    for (const std::string& regime : wanted) {
      subjects.push_back(
          {row.name, reference::problem_of(row), reference::cu_seqlens_of(row), regime, &row});
    }
  }
  return subjects;
}

std::vector<Subject> linear_suite(const std::vector<std::string>& regimes) {
  std::vector<Subject> subjects;
  for (const int heads : {4, 8, 32}) {
    const std::string words = fmt::format("T=8192,32768,131072,524288,1048576 H={}", heads);
    for (Subject& subject : must(subjects_of(words, regimes))) {
      subjects.push_back(std::move(subject));
    }
  }
  return subjects;
}

std::vector<Subject> serving_suite(std::span<const char* const> problems,
                                   const std::vector<std::string>& regimes) {
  std::vector<Subject> subjects;
  for (const char* words : problems) {
    for (Subject& subject : must(subjects_of(words, regimes))) {
      subjects.push_back(std::move(subject));
    }
  }
  return subjects;
}

std::span<const char* const> decode_problems() {
  static constexpr const char* kProblems[] = {
      "T=1 N=1 H=32 pool=1 state=f32,bf16",
      "T=8 N=8 H=32 pool=1 state=f32,bf16",
      "T=64 N=64 H=32 pool=1 state=f32,bf16",
      "T=256 N=256 H=32 pool=1 state=f32,bf16",
      "T=256 N=256 H=32 pool=1 layout=key_first",
      "T=256 N=256 H=32",
      "T=256 N=64 H=32 pool=1",
      "T=256 N=64 H=32 pool=1 drafts=1",
      "T=256,320,512 N=64 H=32 pool=1 committed=1",
      "T=64 N=64 H=16 HV=64 pool=1",
      "T=64 N=64 H=32 pool=1 varlen=1 slots=i64",
  };
  return kProblems;
}

std::span<const char* const> serving_problems() {
  static constexpr const char* kProblems[] = {
      "T=8192 H=64 pool=1",
      "T=8192 H=64 pool=1 checkpoint=64",
      "T=8192 H=16 pool=1",
      "T=8192 H=16 pool=1 checkpoint=64",
      "H=16 pool=1 seqlens=8192",
      "H=16 pool=1 seqlens=256x1",
      "H=16 pool=1 seqlens=256x1,8192",
      "H=16 pool=1 mixed=1 seqlens=256x1,8192",
      "H=16 pool=1 mixed=1 seqlens=256x1,8x1024",
      "H=64 pool=1 mixed=1 seqlens=64x1,8192",
      "H=64 pool=1 seqlens=64x1,8192",
      "H=16 pool=1 seqlens=256x1,8x1024",
      "H=32 pool=1 seqlens=64x1,4096",
      "H=8 pool=1 seqlens=64x1,4096",
  };
  return kProblems;
}

std::vector<Subject> original_suite(const std::vector<std::string>& regimes) {
  struct Size {
    int B, H, T;
  };
  constexpr Size kSizes[] = {
      {2, 8, 4096}, {2, 8, 8192}, {4, 8, 4096}, {2, 16, 4096}, {2, 8, 16384}};
  std::vector<Subject> subjects;
  for (const Size& size : kSizes) {
    const std::string words = fmt::format(
        "T={} N={} H={} K=64 V=64 qkv=f32 g=f32 beta=f32 gate=logsigmoid beta_logit=0 h0=0 ht=0 "
        "wy=32",
        size.B * size.T, size.B, size.H);
    for (Subject& subject : must(subjects_of(words, regimes))) {
      subject.name = fmt::format("original B={} H={} T={}", size.B, size.H, size.T);
      subject.head_major = true;
      subjects.push_back(std::move(subject));
    }
  }
  return subjects;
}

}  // namespace kda::cli
