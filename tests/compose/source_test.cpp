#include "compose/source.hpp"

#include <set>
#include <string>

#include "compose/embedded.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

// Folders of templates/ that hold kernels, taken from the embedded table: "sm80/recurrent/step.cu".
std::string a_kernel_of(std::string_view folder) {
  for (const compose::EmbeddedFile& file : compose::embedded_files()) {
    const std::string_view path = file.path;
    if (path.substr(0, folder.size() + 1) == std::string(folder) + "/" &&
        path.substr(path.size() - 3) == ".cu") {
      return std::string(path.substr(folder.size() + 1));
    }
  }
  return {};
}

}  // namespace

TEST_CASE("a stage's source is its prelude and one include", "[compose]") {
  const std::string file = a_kernel_of("sm80");
  REQUIRE_FALSE(file.empty());
  compose::Stage stage;
  stage.file = file;
  stage.prelude = "#define KDA_SHAPE {}\n";
  const auto source = compose::source_of(stage, {9, 9, "sm_99", "sm99", "sm80"});
  REQUIRE(source);
  CHECK(source->path == "sm80/" + file);
  CHECK(source->text == "#define KDA_SHAPE {}\n#include \"sm80/" + file + "\"\n");
}

TEST_CASE("the family's own folder wins over its fallback", "[compose]") {
  const std::string file = a_kernel_of("sm80");
  compose::Stage stage;
  stage.file = file;
  const auto source = compose::source_of(stage, {9, 9, "sm_99", "sm80", "sm99"});
  REQUIRE(source);
  CHECK(source->path == "sm80/" + file);
}

TEST_CASE("a stage that no folder serves is refused with the paths looked for", "[compose]") {
  compose::Stage stage;
  stage.name = "prepare";
  stage.file = "nothing/prepare.cu";
  const auto source = compose::source_of(stage, {9, 0, "sm_90a", "sm90", "sm80"});
  REQUIRE_FALSE(source);
  CHECK(source.status().code() == Code::unsupported);
  CHECK(source.status().message() ==
        "stage prepare: sm_90a has no template for it; looked for sm90/nothing/prepare.cu, "
        "sm80/nothing/prepare.cu");
  const auto own = compose::source_of(stage, {8, 0, "sm_80", "sm80", "sm80"});
  CHECK_THAT(own.status().message(), test::contains("looked for sm80/nothing/prepare.cu"));
}

TEST_CASE("a template's digest covers what it includes", "[compose]") {
  // abi/chunk.h includes abi/tensors.h and abi/tunable.h; abi/dtype.h includes nothing.
  std::set<std::string> digests;
  for (const char* path : {"abi/dtype.h", "abi/shape.h", "abi/tensors.h", "abi/chunk.h"}) {
    REQUIRE(compose::find_embedded(path) != nullptr);
    CHECK(compose::templates_digest(path) == compose::templates_digest(path));
    digests.insert(compose::templates_digest(path));
  }
  CHECK(digests.size() == 4);
  CHECK(compose::templates_digest("no/such.cu") != compose::templates_digest("no/other.cu"));
}

TEST_CASE("every include of a template is embedded", "[compose]") {
  // A missing one would only show when NVRTC compiles the kernel that needs it.
  for (const compose::EmbeddedFile& file : compose::embedded_files()) {
    const std::string text = file.text;
    for (std::size_t at = text.find("#include"); at != std::string::npos;
         at = text.find("#include", at + 1)) {
      const std::size_t open = text.find_first_of("\"<", at);
      REQUIRE(open != std::string::npos);
      INFO(file.path << ": " << text.substr(at, text.find('\n', at) - at));
      CHECK(text[open] == '"');
      const std::size_t close = text.find('"', open + 1);
      CHECK(compose::find_embedded(text.substr(open + 1, close - open - 1)) != nullptr);
    }
  }
}
