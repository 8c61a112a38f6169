// Every length: around the chunk sizes, empty, many and short, long.
#include <cstring>

#include "support/rig.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

using Lengths = std::vector<std::int64_t>;

std::vector<Trial> one_sequence() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const std::int64_t T : {0,  1,  2,  7,  15, 16,  17,  31,  32,  33,  47,  48,
                                 49, 63, 64, 65, 95, 127, 128, 129, 255, 257, 1000}) {
      out.push_back(trial(all_types(type) + "H=4 HV=4", {T}));
      out.push_back(trial(all_types(type) + "H=4 HV=4 varlen=1", {T}));
    }
  for (const char* type : kTypes)
    for (const std::int64_t T : {1, 31, 33, 64, 4096})
      out.push_back(trial(all_types(type) + "K=128 V=128", {T}));
  return out;
}

std::vector<Trial> dense_batches() {
  std::vector<Trial> out;
  for (const char* type : {"bf16", "f32"})
    for (const std::int64_t T : {0, 1, 33, 64, 100})
      for (const std::size_t N : {2, 5}) out.push_back(trial(all_types(type), Lengths(N, T)));
  return out;
}

std::vector<Trial> many_sequences() {
  Lengths short_ones, steps, empties(40, 0);
  for (int n = 0; n < 256; ++n) short_ones.push_back(n * 37 % 11);
  for (int n = 0; n < 70; ++n) steps.push_back(n);
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* index : {"cu_seqlens=i32 ", "cu_seqlens=i64 "})
      for (const Lengths& lengths :
           {Lengths{0, 5, 0, 0, 64, 1, 0}, Lengths{64, 64, 64, 64}, Lengths{1, 1, 1, 1, 1},
            Lengths{63, 65, 0, 129, 31}, Lengths{500, 3, 0, 700}, short_ones, steps, empties})
        out.push_back(trial(all_types(type) + "varlen=1 " + index, lengths));
  out.push_back(trial("varlen=1 K=128 V=128", {1300, 547, 2048, 963, 271, 3063}));
  out.push_back(trial("varlen=1 K=128 V=128 layout=key_first", short_ones));
  return out;
}

// The same kernels as planned for far larger runs.
std::vector<Trial> small_runs_of_large_plans() {
  std::vector<Trial> out;
  for (const std::int64_t T : {0, 1, 70}) {
    Trial one = trial("T=20000 N=300 varlen=1", {T, T, 3});
    one.problem.max_tokens = 20000;
    one.problem.max_sequences = 300;
    out.push_back(one);
  }
  return out;
}

// Nothing drifts where nothing is forgotten.
std::vector<Trial> long_runs() {
  reference::InputSpec weak;
  weak.gate = reference::GatePattern::weak;
  reference::InputSpec none = weak;
  none.gate = reference::GatePattern::constant;
  none.gate_value = 0;
  return {trial("H=1 HV=2", {65536}, weak), trial("H=1 HV=1 gate=log_decay", {65536}, none),
          trial("H=1 HV=1 qkv=f16 gate=log_decay", {65536}, none),
          trial("H=1 HV=1 qkv=f32 gate=log_decay", {65536}, none),
          trial("H=1 HV=1", {1 << 20}, weak)};
}

}  // namespace

KDA_SWEEP("one sequence", one_sequence)
KDA_SWEEP("dense batches", dense_batches)
KDA_SWEEP("many sequences", many_sequences)
KDA_SWEEP("small runs of large plans", small_runs_of_large_plans)
KDA_SWEEP("long runs", long_runs)

// Chunks end amid tokens of the next sequence, which kernels may read and then leave out: 0 times
// NaN would not.
TEST_CASE("what is NaN in one sequence of a pack is so in no other", "[gpu]") {
  const Gpu gpu;
  int served = 0;
  for (const char* words : {"varlen=1 K=128 V=128 H=1 HV=2", "varlen=1 K=64 V=128 H=2 HV=2"}) {
    const Lengths lengths = {33, 70, 1, 40, 75, 31, 64, 9};
    const Trial one = complete(trial(words, lengths));
    Truth truth(one);
    for (std::size_t odd = 0; odd < 2; ++odd) {  // every other sequence
      reference::Tensors tensors = truth.tensors();
      const auto tokens = static_cast<std::size_t>(one.problem.max_tokens);
      std::size_t begin = 0;
      for (std::size_t n = 0; n < lengths.size(); ++n) {
        const auto length = static_cast<std::size_t>(lengths[n]);
        if (n % 2 == odd) {
          for (reference::Bytes* bytes :
               {&tensors.q, &tensors.k, &tensors.v, &tensors.g, &tensors.beta}) {
            const std::size_t token = bytes->size() / tokens;
            std::memset(bytes->data() + begin * token, 0xff, length * token);
          }
        }
        begin += length;
      }
      std::vector<Variant> variants = every_strategy();
      for (const char* tuning : {"groups=2", "groups=3"}) variants.push_back({"fused", tuning});
      for (const char* tuning : {"short_tokens=8", "stages_at_once=2"})
        variants.push_back({"chunk_wgmma", tuning});
      for (const Variant& variant : variants) {
        Options options;
        options.strategy = variant.strategy;
        options.tuning = variant.tuning;
        const Result<Plan> plan = Plan::make(one.problem, options);
        if (!plan && plan.status().code() == Code::unsupported) continue;
        INFO(to_text(variant) << " | " << to_text(one) << ", NaN from " << odd);
        REQUIRE(plan);
        Rig whole(gpu, one, truth.tensors()), broken(gpu, one, tensors);
        CHECK(whole.run(*plan) == "");
        CHECK(broken.run(*plan) == "");
        const reference::Outputs expected = whole.outputs(), out = broken.outputs();
        const std::size_t row = out.o.size() / tokens;
        const std::size_t state = out.final_state.size() / lengths.size();
        begin = 0;
        std::size_t differ = 0;
        for (std::size_t n = 0; n < lengths.size(); ++n) {
          const auto end = begin + static_cast<std::size_t>(lengths[n]);
          if (n % 2 != odd) {
            for (std::size_t i = begin * row; i < end * row; ++i)
              differ += out.o[i] != expected.o[i];
            for (std::size_t i = n * state; i < (n + 1) * state; ++i)
              differ += out.final_state[i] != expected.final_state[i];
          }
          begin = end;
        }
        CHECK(differ == 0);
        ++served;
      }
    }
  }
  CHECK(served >= 2 * 2 * 2);  // by chunk and recurrent at the least
}
