// kda.h beside kda.hpp: the same enums, fields, defaults and refusals, from programs of any age.
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "api/c_convert.hpp"
#include "api/c_enums.hpp"
#include "api/c_fields.hpp"
#include "kda/kda.h"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;

namespace {

// Whether the enum names this value: compilers print a nameless one as a cast.
template <auto value>
constexpr bool is_named() {
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  return text.find(')', text.find("value = ")) == std::string_view::npos ||
         text.find('(', text.find("value = ")) == std::string_view::npos;
}
template <class Enum>
constexpr bool ends_where_c_does() {
  constexpr std::int32_t last = api::last_of<Enum>;
  return is_named<static_cast<Enum>(last)>() && !is_named<static_cast<Enum>(last + 1)>();
}
static_assert(ends_where_c_does<DType>(), "kda.h lacks a DType");
static_assert(ends_where_c_does<Index>(), "kda.h lacks an Index");
static_assert(ends_where_c_does<Gate>(), "kda.h lacks a Gate");
static_assert(ends_where_c_does<StateLayout>(), "kda.h lacks a StateLayout");
static_assert(ends_where_c_does<Effort>(), "kda.h lacks an Effort");
static_assert(ends_where_c_does<CacheMode>(), "kda.h lacks a CacheMode");
static_assert(ends_where_c_does<LogLevel>(), "kda.h lacks a LogLevel");
static_assert(is_named<Code::device_error>() &&
                  !is_named<static_cast<Code>(KDA_DEVICE_ERROR + 1)>(),
              "kda.h lacks a Code");

// The count that the lists of c_fields.hpp are held to sees a field more.
struct Two {
  std::string a;
  Strides b;
};
struct Three {
  std::string a;
  Strides b;
  bool c;
};
static_assert(api::field_count<Two>() == 2 && api::field_count<Three>() == 3);

const test::Scratch& scratch() {
  static const test::Scratch directory;
  return directory;
}

kda_problem small() {
  kda_problem problem;
  kda_problem_init(&problem);
  problem.heads = 2;
  problem.value_heads = 4;
  problem.key_dim = 32;
  problem.value_dim = 16;
  problem.max_tokens = 256;
  return problem;
}

kda_options named() {
  kda_options options;
  kda_options_init(&options);
  options.target = "h200";
  options.cache_dir = scratch().path().c_str();
  return options;
}

void check_refused(kda_code code, kda_code wanted, const std::string& part) {
  CHECK(std::string(kda_code_name(code)) == kda_code_name(wanted));
  CHECK_THAT(std::string(kda_last_message()), test::contains(part));
}

}  // namespace

TEST_CASE("the C structs start from the C++ defaults", "[api]") {
  kda_problem problem;
  kda_problem_init(&problem);
  Problem read{.heads = 99};
  REQUIRE(api::to_cpp(&problem, read).ok());
  CHECK(read == Problem{});
  // The bug: null ended the process, which every other call refuses.
  kda_problem_init(nullptr);
  kda_options_init(nullptr);
  kda_forward_init(nullptr);

  kda_options options;
  kda_options_init(&options);
  Options how{.device = 7};
  REQUIRE(api::to_cpp(&options, how).ok());
  CHECK(how == Options{});

  kda_forward forward;
  kda_forward_init(&forward);
  CHECK(forward.struct_size == sizeof forward);
  CHECK(forward.sequences == 1);
  CHECK(forward.pool.indices.columns == 1);
}

TEST_CASE("every field crosses under its own name", "[api]") {
  // Each problem field set alone arrives alone.
  std::apply(
      [](const auto&... row) {
        const auto check = [](const auto& field) {
          kda_problem problem;
          kda_problem_init(&problem);
          auto& value = problem.*field.c;
          value = value == 0 ? 1 : 0;
          Problem read;
          INFO(field.name);
          REQUIRE(api::to_cpp(&problem, read).ok());
          using Cpp = std::decay_t<decltype(read.*field.cpp)>;
          CHECK(read.*field.cpp == static_cast<Cpp>(value));
          read.*field.cpp = Problem{}.*field.cpp;
          CHECK(read == Problem{});
        };
        (check(row), ...);
      },
      api::kProblemFields);

  const std::int32_t count = 0;
  kda_forward forward;
  kda_forward_init(&forward);
  forward.tokens = 5;
  forward.v_strides = {1, 2, 3};
  forward.pool.checkpoints = {&forward, 4, 6};
  forward.committed_tokens = &count;
  Forward tensors;
  REQUIRE(api::to_cpp(&forward, tensors).ok());
  CHECK(tensors.tokens == 5);
  CHECK(tensors.v_strides.head == 3);
  CHECK(tensors.pool.checkpoints.data == &forward);
  CHECK(tensors.pool.checkpoints.stride == 6);
  CHECK(tensors.committed_tokens == &count);
}

TEST_CASE("a plan through C: made, described, refused", "[api]") {
  const kda_problem problem = small();
  const kda_options options = named();
  CHECK(kda_supports(&problem, &options) == KDA_OK);
  kda_plan* plan = nullptr;
  const kda_code code = kda_plan_make(&problem, &options, &plan);
  INFO(kda_last_message());
  REQUIRE(code == KDA_OK);
  CHECK_THAT(std::string(kda_plan_describe(plan)), test::contains("strategy"));
  CHECK(kda_plan_describe(plan) == kda_plan_describe(plan));
  CHECK(kda_plan_workspace_bytes(plan) % 256 == 0);

  kda_problem complete;
  kda_problem_init(&complete);
  REQUIRE(kda_plan_problem(plan, &complete) == KDA_OK);
  CHECK(complete.value_heads == 4);
  CHECK(complete.scale > 0.17F);

  kda_forward forward;
  kda_forward_init(&forward);
  check_refused(kda_plan_run(plan, &forward, nullptr, 0, nullptr), KDA_INVALID_ARGUMENT,
                "workspace_bytes = 0");
  forward.tokens = -1;
  check_refused(kda_plan_run(plan, &forward, nullptr, 0, nullptr), KDA_INVALID_ARGUMENT, "tokens");
  kda_plan_destroy(plan);
  kda_plan_destroy(nullptr);
}

TEST_CASE("plans made together fail apart", "[api]") {
  const kda_problem good = small();
  kda_problem odd = small();
  odd.value_heads = 3;
  const kda_options options = named();
  const kda_problem* problems[] = {&good, &odd, nullptr, &good};
  kda_plan* plans[4] = {};
  kda_code codes[4] = {};
  check_refused(kda_plan_make_all(problems, 4, &options, plans, codes), KDA_INVALID_PROBLEM,
                "value_heads = 3");
  CHECK(codes[0] == KDA_OK);
  CHECK(codes[1] == KDA_INVALID_PROBLEM);
  CHECK(codes[2] == KDA_INVALID_ARGUMENT);
  CHECK(codes[3] == KDA_OK);
  CHECK(plans[0] != nullptr);
  CHECK(plans[1] == nullptr);
  CHECK(plans[2] == nullptr);
  CHECK(plans[3] != nullptr);
  for (kda_plan* plan : plans) kda_plan_destroy(plan);
  CHECK(kda_plan_make_all(nullptr, 0, nullptr, nullptr, nullptr) == KDA_OK);
}

// The bug: where the options were at fault, each problem's code was invalid_argument, whatever the
// call returned.
TEST_CASE("options that are refused are each problem's code", "[api]") {
  struct {
    kda_options known;
    std::int64_t field;
  } newer;
  kda_options_init_sized(&newer.known, sizeof newer);
  newer.field = 1;
  const kda_problem good = small();
  const kda_problem* problems[] = {&good, &good};
  kda_plan* plans[2] = {};
  kda_code codes[2] = {};
  check_refused(kda_plan_make_all(problems, 2, &newer.known, plans, codes), KDA_UNSUPPORTED,
                "use a newer one");
  for (int i = 0; i < 2; ++i) {
    CHECK(codes[i] == KDA_UNSUPPORTED);
    CHECK(plans[i] == nullptr);
  }
  check_refused(kda_plan_make_all(nullptr, 2, nullptr, plans, codes), KDA_INVALID_ARGUMENT,
                "problems is null");
  CHECK(codes[1] == KDA_INVALID_ARGUMENT);
}

TEST_CASE("what C can get wrong is refused by name", "[api]") {
  const kda_options options = named();
  kda_plan* plan = nullptr;
  check_refused(kda_plan_make(nullptr, &options, &plan), KDA_INVALID_ARGUMENT, "problem is null");
  kda_problem problem = small();
  check_refused(kda_plan_make(&problem, &options, nullptr), KDA_INVALID_ARGUMENT, "plan is null");
  check_refused(kda_plan_run(nullptr, nullptr, nullptr, 0, nullptr), KDA_INVALID_ARGUMENT,
                "plan is null");
  CHECK(kda_plan_workspace_bytes(nullptr) == 0);

  problem.varlen = 7;
  check_refused(kda_supports(&problem, &options), KDA_INVALID_PROBLEM, "varlen = 7");
  problem = small();
  problem.gate = 77;
  check_refused(kda_supports(&problem, &options), KDA_INVALID_PROBLEM, "gate = 77");
  problem = small();
  problem.struct_size = 0;
  check_refused(kda_supports(&problem, &options), KDA_INVALID_PROBLEM,
                "kda_problem.struct_size = 0");
  problem = small();
  // The bug: what was never filled was read to wherever it said that it ended.
  for (const std::size_t size : {std::size_t{4097}, SIZE_MAX}) {
    problem.struct_size = size;
    check_refused(kda_supports(&problem, &options), KDA_INVALID_PROBLEM,
                  "kda_problem.struct_size = " + std::to_string(size));
  }
  problem = small();
  kda_options bad = named();
  bad.effort = -1;
  check_refused(kda_supports(&problem, &bad), KDA_INVALID_ARGUMENT, "effort = -1");
  bad = named();
  bad.strategy = "magic";
  check_refused(kda_supports(&problem, &bad), KDA_INVALID_ARGUMENT, "magic");
  check_refused(kda_set_log(9, nullptr, nullptr), KDA_INVALID_ARGUMENT, "level = 9");
  check_refused(kda_add_bundle(nullptr, 0), KDA_INVALID_ARGUMENT, "bundle is null");
  check_refused(kda_add_bundle("no bundle", 9), KDA_INVALID_ARGUMENT, "bundle");

  kda_problem room = small();
  room.struct_size = 8;
  REQUIRE(kda_plan_make(&problem, &options, &plan) == KDA_OK);
  check_refused(kda_plan_problem(plan, &room), KDA_INVALID_PROBLEM, "struct_size = 8");
  kda_plan_destroy(plan);
}

TEST_CASE("a newer program works with this library until it asks for what is not here", "[api]") {
  struct Newer {
    kda_problem known;
    std::int64_t field;
  } newer;
  std::memset(&newer, 0xff, sizeof newer);
  kda_problem_init_sized(&newer.known, sizeof newer);
  CHECK(newer.known.struct_size == sizeof newer);
  CHECK(newer.field == 0);
  newer.known.heads = 2;
  const kda_options options = named();
  CHECK(kda_supports(&newer.known, &options) == KDA_OK);
  newer.field = 1;
  check_refused(kda_supports(&newer.known, &options), KDA_UNSUPPORTED, "use a newer one");
}

// A field in what was a struct's padding would not make it longer: a program from before it would
// hand over whatever lies there, and a library from before it would not refuse the field.
static_assert(offsetof(kda_problem, committed_tokens) == 128 && sizeof(kda_problem) == 152);
static_assert(sizeof(kda_options) > 80 || api::field_count<Options>() == 10,
              "kda_options ends in 4 bytes of padding: the next field is one of 8");

TEST_CASE("the bytes past an older program's last field are not read", "[api]") {
  kda_problem newer = small();
  std::memset(reinterpret_cast<unsigned char*>(&newer) + offsetof(kda_problem, wy_chunk) +
                  sizeof newer.wy_chunk,
              0xa5, sizeof newer - offsetof(kda_problem, wy_chunk) - sizeof newer.wy_chunk);
  newer.struct_size = offsetof(kda_problem, committed_tokens);
  Problem read;
  REQUIRE(api::to_cpp(&newer, read).ok());
  CHECK_FALSE(read.committed_tokens);
  CHECK_FALSE(read.beta_at_most_one);
  CHECK_FALSE(read.qk_normalized);
}

TEST_CASE("an older program's structs are neither overrun nor misread", "[api]") {
  // As from a kda.h whose structs ended where these did in the first release.
  constexpr std::size_t size = offsetof(kda_problem, mixed_lengths) + sizeof(std::int32_t);
  alignas(kda_problem) std::vector<unsigned char> bytes(sizeof(kda_problem) + 16, 0xa5);
  auto* older = reinterpret_cast<kda_problem*>(bytes.data());
  kda_problem_init_sized(older, size);
  CHECK(older->struct_size == size);
  for (std::size_t at = size; at < bytes.size(); ++at) CHECK(bytes[at] == 0xa5);
  older->heads = 2;
  Problem read;
  REQUIRE(api::to_cpp(older, read).ok());
  CHECK(read == Problem{.heads = 2});
}

TEST_CASE("messages belong to their thread and outlast successes", "[api]") {
  CHECK(kda_plan_make(nullptr, nullptr, nullptr) == KDA_INVALID_ARGUMENT);
  const std::string before = kda_last_message();
  CHECK_THAT(before, test::contains("null"));
  const kda_problem problem = small();
  const kda_options options = named();
  CHECK(kda_supports(&problem, &options) == KDA_OK);
  CHECK(kda_last_message() == before);
  CHECK(std::string(kda_code_name(KDA_NO_WISDOM)) == "no_wisdom");
}

// The bug: nothing tied kda.h's number to the version by which CMake finds and names the library.
TEST_CASE("the library's version is the project's", "[api]") {
  const int major = KDA_VERSION / 10000, minor = KDA_VERSION / 100 % 100;
  CHECK(std::to_string(major) + "." + std::to_string(minor) + "." +
            std::to_string(KDA_VERSION % 100) ==
        KDA_PROJECT_VERSION);
  CHECK(kda_version() == KDA_VERSION);
}

TEST_CASE("C sinks hear the log", "[api]") {
  std::vector<std::string> heard;
  const kda_log_sink sink = [](std::int32_t, const char* text, void* user) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(text);
  };
  REQUIRE(kda_set_log(KDA_LOG_TRACE, sink, &heard) == KDA_OK);
  kda_problem problem = small();
  problem.heads = 1;
  kda_plan* plan = nullptr;
  const kda_options options = named();
  CHECK(kda_plan_make(&problem, &options, &plan) == KDA_OK);
  kda_plan_destroy(plan);
  REQUIRE(kda_set_log(KDA_LOG_OFF, nullptr, nullptr) == KDA_OK);
  CHECK_FALSE(heard.empty());
}
