#include "reference/cases.hpp"

#include <algorithm>
#include <cmath>

#include "reference/tensors.hpp"

namespace kda::reference {
namespace {

constexpr std::int64_t kMixed[] = {1300, 547, 2048, 963, 271, 3063};

// clang-format off
constexpr Case kCases[] = {
    // name, T, H, HV, N, lengths, floor, FLA, FlashKDA, cuLA, bar, goal
    {"h96", 8192, 96, 96, 1, nullptr, 239, 2602, 1424, 1866, 450, 300},
    {"h96_mixed", 8192, 96, 96, 6, kMixed, 254, 2641, 1360, 1883, 450, 300},
    {"h96_8x1024", 8192, 96, 96, 8, nullptr, 260, 2614, 1170, 1698, 430, 290},
    {"h64", 8192, 64, 64, 1, nullptr, 159, 1727, 1214, 1738, 300, 200},
    {"h64_mixed", 8192, 64, 64, 6, kMixed, 169, 1787, 986, 1374, 300, 200},
    {"h64_8x1024", 8192, 64, 64, 8, nullptr, 173, 1787, 788, 1138, 290, 195},
    {"gva16_64", 8192, 16, 64, 1, nullptr, 112, 1546, 0, 0, 280, 170},
    {"h32", 8192, 32, 32, 1, nullptr, 80, 988, 1003, 1620, 170, 110},
    {"h24", 8192, 24, 24, 1, nullptr, 60, 811, 952, 1581, 150, 95},
    {"h16", 8192, 16, 16, 1, nullptr, 40, 618, 895, 1561, 130, 75},
    {"h8", 8192, 8, 8, 1, nullptr, 20, 0, 0, 0, 80, 50},
    {"h4", 8192, 4, 4, 1, nullptr, 10, 0, 0, 0, 60, 38},
    {"h32_4x4096", 16384, 32, 32, 4, nullptr, 161, 1677, 819, 1047, 300, 200},
    {"h16_8x2048", 16384, 16, 16, 8, nullptr, 83, 888, 422, 538, 170, 110},
    {"h12_4x2048", 8192, 12, 12, 4, nullptr, 31, 397, 294, 441, 90, 55},
    {"h12_t2048", 2048, 12, 12, 1, nullptr, 8, 151, 232, 403, 45, 25},
    {"h8_t4096", 4096, 8, 8, 1, nullptr, 10, 226, 429, 774, 60, 32},
    {"h4_t1024", 1024, 4, 4, 1, nullptr, 1, 71, 110, 207, 25, 15},
    {"h8_t65536", 65536, 8, 8, 1, nullptr, 158, 3148, 6601, 12165, 450, 300},
    {"h4_t131072", 131072, 4, 4, 1, nullptr, 158, 0, 0, 0, 500, 330},
    {"h32_t131072", 131072, 32, 32, 1, nullptr, 1260, 0, 0, 0, 2200, 1500},
    {"h32_t256", 256, 32, 32, 1, nullptr, 3, 69, 45, 70, 22, 12},
    {"h16_32x64", 2048, 16, 16, 32, nullptr, 26, 176, 92, 141, 55, 36},
};
// clang-format on

}  // namespace

std::span<const Case> cases() { return kCases; }

const Case* find_case(std::string_view name) {
  const auto* found = std::find_if(std::begin(kCases), std::end(kCases),
                                   [&](const Case& row) { return name == row.name; });
  return found == std::end(kCases) ? nullptr : found;
}

Problem problem_of(const Case& row) {
  Problem p;
  p.heads = row.heads;
  p.value_heads = row.value_heads;
  p.max_tokens = row.tokens;
  p.max_sequences = row.sequences;
  p.varlen = row.sequences > 1;
  p.scale = 1.0F / std::sqrt(static_cast<float>(p.key_dim));
  p.initial_state = true;
  p.final_state = true;
  return p;
}

std::vector<std::int64_t> cu_seqlens_of(const Case& row) {
  std::vector<std::int64_t> lengths(row.sequences, row.tokens / row.sequences);
  if (row.lengths != nullptr) lengths.assign(row.lengths, row.lengths + row.sequences);
  return cu_seqlens_of(lengths);
}

}  // namespace kda::reference
