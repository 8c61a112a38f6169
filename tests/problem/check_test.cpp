#include "problem/check.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "problem/problem.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

// Addresses are compared, never read.
template <class T = void>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

const Problem kProblem = *problem::complete({.heads = 2,
                                             .value_heads = 4,
                                             .key_dim = 64,
                                             .value_dim = 32,
                                             .max_tokens = 1000,
                                             .max_sequences = 4,
                                             .gate_type = DType::f32,
                                             .initial_state = true,
                                             .final_state = true});

Problem packed() {
  Problem p = kProblem;
  p.varlen = true;
  return p;
}

Forward legal() {
  Forward f{.tokens = 100, .sequences = 2};
  f.q = at(0x100000);
  f.k = at(0x200000);
  f.v = at(0x300000);
  f.g = at(0x400000);
  f.beta = at(0x500000);
  f.A_log = at<const float>(0x600000);
  f.dt_bias = at<const float>(0x700000);
  f.initial_state = at(0x800000);
  f.o = at(0x900000);
  f.final_state = at(0xa00000);
  return f;
}

std::string refusal(const std::function<void(Forward&)>& spoil, const Problem& p = kProblem) {
  Forward f = legal();
  if (p.varlen) f.cu_seqlens = at(0xb00000);
  spoil(f);
  const Status status = problem::check(p, f);
  CHECK(status.code() == Code::invalid_argument);
  return status.message();
}

bool accepted(const std::function<void(Forward&)>& change, const Problem& p = kProblem) {
  Forward f = legal();
  if (p.varlen) f.cu_seqlens = at(0xb00000);
  change(f);
  const Status status = problem::check(p, f);
  INFO(status.message());
  CHECK(status);
  return status.ok();
}

}  // namespace

TEST_CASE("legal runs pass", "[problem]") {
  accepted([](Forward&) {});
  accepted([](Forward& f) { f.tokens = 1000; });
  accepted([](Forward& f) { f.sequences = 1; });
  accepted([](Forward& f) { f.A_log = nullptr, f.dt_bias = nullptr; });
  accepted([](Forward& f) { f.q = at(0x100002), f.g = at(0x400004), f.o = at(0x900002); });
  accepted([](Forward& f) { f.tokens = 99, f.sequences = 4; }, packed());
  Problem stateless = kProblem;
  stateless.initial_state = stateless.final_state = false;
  accepted([](Forward& f) { f.initial_state = nullptr, f.final_state = nullptr; }, stateless);
}

TEST_CASE("no tokens need no token tensors", "[problem]") {
  accepted([](Forward& f) {
    f.tokens = 0;
    f.q = f.k = f.v = f.g = f.beta = nullptr;
    f.o = nullptr;
  });
}

TEST_CASE("sizes past the plan are refused", "[problem]") {
  CHECK(refusal([](Forward& f) { f.tokens = 1001; }) ==
        "tokens = 1001; the plan takes 0..max_tokens = 1000");
  CHECK(refusal([](Forward& f) { f.tokens = -1; }) ==
        "tokens = -1; the plan takes 0..max_tokens = 1000");
  CHECK(refusal([](Forward& f) { f.sequences = 0; }) ==
        "sequences = 0; the plan takes 1..max_sequences = 4");
  CHECK(refusal([](Forward& f) { f.sequences = 5; }) ==
        "sequences = 5; the plan takes 1..max_sequences = 4");
  CHECK_THAT(refusal([](Forward& f) { f.sequences = 3; }),
             test::contains("tokens = 100 is not a multiple of sequences = 3"));
}

TEST_CASE("null pointers are refused by name", "[problem]") {
  CHECK(refusal([](Forward& f) { f.q = nullptr; }) == "q is null");
  CHECK(refusal([](Forward& f) { f.k = nullptr; }) == "k is null");
  CHECK(refusal([](Forward& f) { f.v = nullptr; }) == "v is null");
  CHECK(refusal([](Forward& f) { f.g = nullptr; }) == "g is null");
  CHECK(refusal([](Forward& f) { f.beta = nullptr; }) == "beta is null");
  CHECK(refusal([](Forward& f) { f.o = nullptr; }) == "o is null");
  CHECK(refusal([](Forward& f) { f.initial_state = nullptr; }) == "initial_state is null");
  CHECK(refusal([](Forward& f) { f.final_state = nullptr; }) == "final_state is null");
  CHECK(refusal([](Forward& f) { f.cu_seqlens = nullptr; }, packed()) == "cu_seqlens is null");
  CHECK(refusal([](Forward& f) { f.tokens = 0, f.final_state = nullptr; }) ==
        "final_state is null");
}

TEST_CASE("pointers not aligned to their element are refused", "[problem]") {
  CHECK(refusal([](Forward& f) { f.q = at(0x100001); }) ==
        "q = 0x100001 is not aligned to its element of 2 bytes");
  CHECK_THAT(refusal([](Forward& f) { f.k = at(0x200001); }), test::contains("k = "));
  CHECK_THAT(refusal([](Forward& f) { f.v = at(0x300001); }), test::contains("v = "));
  CHECK_THAT(refusal([](Forward& f) { f.g = at(0x400002); }),
             test::contains("g = 0x400002 is not aligned to its element of 4 bytes"));
  CHECK_THAT(refusal([](Forward& f) { f.beta = at(0x500001); }), test::contains("beta = "));
  CHECK_THAT(refusal([](Forward& f) { f.A_log = at<const float>(0x600002); }),
             test::contains("A_log = "));
  CHECK_THAT(refusal([](Forward& f) { f.dt_bias = at<const float>(0x700001); }),
             test::contains("dt_bias = "));
  CHECK_THAT(refusal([](Forward& f) { f.initial_state = at(0x800002); }),
             test::contains("initial_state = "));
  CHECK_THAT(refusal([](Forward& f) { f.o = at(0x900001); }), test::contains("o = "));
  CHECK_THAT(refusal([](Forward& f) { f.final_state = at(0xa00002); }),
             test::contains("final_state = "));
  // i64 offsets at an i32 address: the usual sign of the wrong cu_seqlens_type.
  CHECK(refusal([](Forward& f) { f.cu_seqlens = at(0xb00004); }, packed()) ==
        "cu_seqlens = 0xb00004 is not aligned to its element of 8 bytes");
  Problem narrow = packed();
  narrow.cu_seqlens_type = Index::i32;
  accepted([](Forward& f) { f.cu_seqlens = at(0xb00004); }, narrow);
}

TEST_CASE("tensors that the plan would ignore are refused", "[problem]") {
  Problem stateless = kProblem;
  stateless.initial_state = stateless.final_state = false;
  CHECK(refusal([](Forward& f) { f.u = at(0xc00000); }) ==
        "u is given, but Problem::wy_chunk = 0; make the plan with it, or pass null");
  CHECK_THAT(refusal([](Forward& f) { f.w = f.u = at(0xc00000); }), test::contains("w is given"));
  Problem chunked = kProblem;
  chunked.wy_chunk = 32;
  accepted([](Forward& f) { f.w = at(0xc00000); }, chunked);
  CHECK_THAT(refusal([](Forward& f) { f.u = at(0xc00001); }, chunked), test::contains("u = "));
  CHECK_THAT(refusal([](Forward& f) { f.final_state = nullptr; }, stateless),
             test::contains("initial_state is given, but Problem::initial_state = false"));
  CHECK_THAT(refusal([](Forward& f) { f.initial_state = nullptr; }, stateless),
             test::contains("final_state is given, but Problem::final_state = false"));
  CHECK_THAT(refusal([](Forward& f) { f.cu_seqlens = at(0xb00000); }),
             test::contains("cu_seqlens is given, but Problem::varlen = false"));
}

TEST_CASE("committed_tokens may be left out, where the problem has them", "[problem]") {
  CHECK(
      refusal([](Forward& f) { f.committed_tokens = at(0xd00000); }) ==
      "committed_tokens is given, but Problem::committed_tokens = false; make the plan with it, or "
      "pass null");
  Problem committed = kProblem;
  committed.committed_tokens = true;
  accepted([](Forward&) {}, committed);
  accepted([](Forward& f) { f.committed_tokens = at(0xd00004); }, committed);
  committed.slot_index_type = Index::i64;
  CHECK(refusal([](Forward& f) { f.committed_tokens = at(0xd00004); }, committed) ==
        "committed_tokens = 0xd00004 is not aligned to its element of 8 bytes");
}

TEST_CASE("any layout of disjoint elements is legal", "[problem]") {
  // [B, H, T, K]
  accepted([](Forward& f) { f.q_strides = {2 * 50 * 64, 64, 50 * 64}; });
  accepted([](Forward& f) { f.o_strides = {4 * 50 * 32, 32, 50 * 32}; });
  // A slice of a packed qkv row.
  accepted([](Forward& f) { f.v_strides = {50 * 1000, 1000, 32}; });
  // Axes of one element may have any stride.
  accepted([](Forward& f) { f.sequences = 1, f.o_strides = {0, 128, 32}; });
  accepted([](Forward& f) { f.tokens = 2, f.o_strides = {128, 0, 32}; });
  accepted([](Forward& f) { f.o_strides = {-1, 128, 32}; }, packed());
  // Inputs may share elements between rows.
  accepted([](Forward& f) { f.g_strides = {1, 1, 1}; });
}

TEST_CASE("strides that cannot be are refused", "[problem]") {
  CHECK(refusal([](Forward& f) {
          f.q_strides = {6400, 128, 0};
        }) == "q_strides.head = 0; with 2 of them it must be positive (all three 0: contiguous)");
  CHECK_THAT(refusal([](Forward& f) {
               f.k_strides = {6400, -128, 64};
             }),
             test::contains("k_strides.token = -128"));
  CHECK_THAT(refusal([](Forward& f) {
               f.v_strides = {0, 128, 32};
             }),
             test::contains("v_strides.sequence = 0"));
  CHECK_THAT(refusal([](Forward& f) {
               f.beta_strides = {200, 0, 1};
             }),
             test::contains("beta_strides.token = 0"));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(refusal([](Forward& f) {
               f.g_strides = {most / 2, 256, 64};
             }),
             test::contains("g_strides.sequence"));
  CHECK_THAT(refusal([](Forward& f) {
               f.q_strides = {6400, most / 50, 64};
             }),
             test::contains("reaches past 63 bits"));
  // Axes each of which has an address, while the last element of both has none.
  CHECK_THAT(refusal([](Forward& f) {
               f.q_strides = {most / 4, 128, most / 4};
             }),
             test::contains("q_strides.head") && test::contains("reaches past 63 bits"));
  accepted([](Forward& f) { f.q_strides = {most / 4, 128, most / 8}; });
}

// The bug: only o was held against the inputs.
TEST_CASE("outputs have memory of their own", "[problem]") {
  const auto q_of = [](Forward& f) { return const_cast<void*>(f.q); };
  CHECK(refusal([&](Forward& f) { f.o = q_of(f); }) ==
        "o and q are the same memory; outputs need their own");
  CHECK(refusal([&](Forward& f) { f.final_state = q_of(f); }) ==
        "final_state and q are the same memory; outputs need their own");
  CHECK(refusal([](Forward& f) { f.o = const_cast<void*>(f.cu_seqlens); }, packed()) ==
        "o and cu_seqlens are the same memory; outputs need their own");
  // The bug: of what else kernels read nothing was held against outputs, nor lengths against
  // states.
  CHECK(refusal([](Forward& f) { f.final_state = const_cast<void*>(f.cu_seqlens); }, packed()) ==
        "final_state and cu_seqlens are the same memory; outputs need their own");
  CHECK_THAT(refusal(
                 [](Forward& f) {
                   f.tokens = 0;
                   f.final_state = const_cast<void*>(f.cu_seqlens);
                 },
                 packed()),
             test::contains("final_state and cu_seqlens"));
  CHECK_THAT(refusal([](Forward& f) { f.o = const_cast<float*>(f.A_log); }),
             test::contains("o and A_log"));
  CHECK_THAT(refusal([](Forward& f) { f.final_state = const_cast<float*>(f.dt_bias); }),
             test::contains("final_state and dt_bias"));
  // Without these an output over one of them passed unnoticed.
  CHECK_THAT(refusal([](Forward& f) { f.o = const_cast<void*>(f.k); }), test::contains("o and k"));
  CHECK_THAT(refusal([](Forward& f) { f.o = const_cast<void*>(f.g); }), test::contains("o and g"));
  CHECK_THAT(refusal([](Forward& f) { f.o = const_cast<void*>(f.beta); }),
             test::contains("o and beta"));
  CHECK_THAT(refusal([](Forward& f) { f.o = const_cast<void*>(f.initial_state); }),
             test::contains("o and initial_state"));
  Problem committed = kProblem;
  committed.committed_tokens = true;
  CHECK_THAT(refusal([](Forward& f) { f.committed_tokens = f.o; }, committed),
             test::contains("o and committed_tokens"));
  // The bug: w and u were held against nothing.
  Problem chunks = kProblem;
  chunks.wy_chunk = 64;
  CHECK(refusal([&](Forward& f) { f.w = q_of(f); }, chunks) ==
        "w and q are the same memory; outputs need their own");
  CHECK(refusal([&](Forward& f) { f.u = f.o; }, chunks) ==
        "u and o are the same memory; outputs need their own");
  CHECK(refusal([&](Forward& f) { f.w = f.u = at(0xc00000); }, chunks) ==
        "w and u are the same memory; outputs need their own");
  accepted([](Forward& f) { f.w = at(0xc00000), f.u = at(0xd00000); }, chunks);
  accepted([](Forward& f) { f.final_state = const_cast<void*>(f.initial_state); });
  // The bug: a state in place was held against nothing else.
  CHECK(refusal([&](Forward& f) { f.initial_state = f.final_state = q_of(f); }) ==
        "final_state and q are the same memory; outputs need their own");
}

TEST_CASE("an output whose elements overlap is refused", "[problem]") {
  CHECK(refusal([](Forward& f) {
          f.o_strides = {50 * 128, 128, 31};
        }) == "o_strides.head = 31 makes elements of the output overlap; at least 32 does not");
  CHECK_THAT(refusal([](Forward& f) {
               f.o_strides = {50 * 128, 127, 32};
             }),
             test::contains("o_strides.token = 127"));
  CHECK_THAT(refusal([](Forward& f) {
               f.o_strides = {50 * 128 - 1, 128, 32};
             }),
             test::contains("o_strides.sequence = 6399"));
  CHECK_THAT(refusal([](Forward& f) {
               f.o_strides = {6400, 128, 0};
             }),
             test::contains("o_strides.head = 0"));
}

TEST_CASE("outputs have their own memory, but for the state in place", "[problem]") {
  accepted([](Forward& f) { f.final_state = at(0x800000); });
  CHECK_THAT(refusal([](Forward& f) { f.o = at(0x300000); }), test::contains("o and v"));
  CHECK_THAT(refusal([](Forward& f) { f.o = f.final_state; }), test::contains("o and final_state"));
  // Two sequences of 4 heads of [64, 32] floats: 65536 bytes.
  accepted([](Forward& f) { f.final_state = at(0x800000 + 65536); });
  accepted([](Forward& f) { f.final_state = at(0x800000 - 65536); });
  CHECK_THAT(refusal([](Forward& f) { f.final_state = at(0x800000 + 65532); }),
             test::contains("final_state overlaps initial_state 65532 bytes in"));
  CHECK_THAT(refusal([](Forward& f) { f.final_state = at(0x800000 - 4); }),
             test::contains("final_state overlaps initial_state 4 bytes in"));
}
