#include "compose/prelude.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include "compose/golden/every_field.prelude"  // KDA_SHAPE and KDA_TUNING, as a template sees them
#include "support/catch.hpp"

using namespace kda;

namespace {

struct Tuning {
  int chunk = 32;
  int shards = 1;
  int load_stages = 3;
};
constexpr abi::Tunable<Tuning> rows[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"shards", &Tuning::shards, {1, 2}, "CTAs a head"},
    {"load_stages", &Tuning::load_stages, {2, 3}, "tiles in flight"},
};

constexpr abi::Shape shape = KDA_SHAPE;
constexpr Tuning tuning = KDA_TUNING;

}  // namespace

TEST_CASE("the prelude is the text that compiles to the shape and tuning it came from",
          "[compose]") {
  std::ifstream file(KDA_SOURCE_DIR "/tests/compose/golden/every_field.prelude");
  std::stringstream golden;
  golden << file.rdbuf();
  CHECK(compose::prelude(shape, tunable::values_of(tuning, rows)) == golden.str());
}

TEST_CASE("every field of the golden prelude holds something other than its default", "[compose]") {
  constexpr abi::Shape plain;
  CHECK(shape.key_dim != plain.key_dim);
  CHECK(shape.value_dim != plain.value_dim);
  CHECK(shape.group != plain.group);
  CHECK(shape.qkv_type != plain.qkv_type);
  CHECK(shape.gate_type != plain.gate_type);
  CHECK(shape.state_type != plain.state_type);
  CHECK(shape.gate != plain.gate);
  CHECK(shape.beta_is_logit != plain.beta_is_logit);
  CHECK(shape.allow_neg_eigval != plain.allow_neg_eigval);
  CHECK(shape.beta_at_most_one != plain.beta_at_most_one);
  CHECK(shape.l2norm_qk != plain.l2norm_qk);
  CHECK(shape.qk_normalized != plain.qk_normalized);
  CHECK(shape.state_value_first != plain.state_value_first);
  CHECK(shape.initial_state != plain.initial_state);
  CHECK(shape.varlen != plain.varlen);
  CHECK(shape.cu_seqlens_type != plain.cu_seqlens_type);
  CHECK(shape.state_pool != plain.state_pool);
  CHECK(shape.slot_index_type != plain.slot_index_type);
  CHECK(shape.draft_states != plain.draft_states);
  CHECK(shape.checkpoints != plain.checkpoints);
  CHECK(shape.zero_padding != plain.zero_padding);
  CHECK(shape.wy_tensors != plain.wy_tensors);
  CHECK(shape.committed_tokens != plain.committed_tokens);
  CHECK(tuning.load_stages == -1);
}

TEST_CASE("every enumerator is spelled as the templates declare it", "[compose]") {
  const auto text = [](abi::Shape s) { return compose::prelude(s, {}); };
  CHECK_THAT(text({.qkv_type = abi::DType::f32}),
             test::contains(".qkv_type = kda::abi::DType::f32"));
  CHECK_THAT(text({.gate = abi::Gate::log_decay}),
             test::contains(".gate = kda::abi::Gate::log_decay"));
  CHECK_THAT(text({.gate = abi::Gate::bounded}), test::contains(".gate = kda::abi::Gate::bounded"));
  CHECK_THAT(text({.cu_seqlens_type = abi::Index::i64}),
             test::contains(".cu_seqlens_type = kda::abi::Index::i64"));
  CHECK_THAT(text({}), test::contains("#define KDA_TUNING {}\n"));
  // Without a pool nothing says so: kernels that know none keep their keys.
  CHECK(text({}).find("state_pool") == std::string::npos);
  CHECK(text({}).find("committed_tokens") == std::string::npos);
  CHECK(text({}).find("beta_at_most_one") == std::string::npos);
  CHECK(text({}).find("qk_normalized") == std::string::npos);
  CHECK_THAT(text({.slot_index_type = abi::Index::i64, .committed_tokens = true}),
             test::contains(".slot_index_type = kda::abi::Index::i64, .committed_tokens = true}"));
}
