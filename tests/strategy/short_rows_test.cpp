// Rows of q and k of norm n have length n / sqrt(n^2 + 1e-6) once they are normalised, and so q k
// may be of any size.  The bug: slabs and teams stored it in f16 as it was, where it got subnormal:
// of rows of 1e-5 o was 3.3e-2 off, and of 1e-6 nothing was left; groups did so without the scale,
// of rows of 1e-6 0.24.
#include <string>
#include <vector>

#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::InputSpec;

namespace {

std::vector<Trial> short_rows(const char* gate, std::initializer_list<double> norms) {
  std::vector<Trial> out;
  for (const double norm : norms)
    for (const std::string scale : {"", "scale=0.0009765625 ", "scale=100 "})
      for (const char* size : {"K=64 V=128 ", "K=128 V=128 "}) {
        // Times 2^-10 rows of q that are shorter get subnormal themselves.
        if (scale == "scale=0.0009765625 " && norm < 1e-4) continue;
        InputSpec spec;
        spec.row_norm = norm;
        spec.gate = reference::GatePattern::mixed;
        out.push_back(trial(std::string("g=bf16 h0=0 ht=1 ") + gate + scale + size, {75}, spec));
      }
  return out;
}

}  // namespace

TEST_CASE("short rows compose", "[strategy]") {
  const auto trials = short_rows("gate=bounded ", {1e-5});
  const Tally tally =
      compose_only("short rows", trials, "sm_90a", {{"fused", "groups=4"}, {"chunk_wgmma", ""}});
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
}

TEST_CASE("short rows", "[gpu][short_rows]") {
  for (const char* gate : {"gate=bounded ", "gate=softplus "})
    check_on_device("short rows", short_rows(gate, {1e-3, 1e-4, 1e-5, 1e-6}));
}
