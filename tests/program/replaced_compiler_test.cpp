// NVRTC's files replaced while a process runs that has not opened it yet.
#include <filesystem>
#include <iostream>
#include <string>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cache/cache.hpp"
#include "compile/note.hpp"
#include "compile/nvrtc.hpp"
#include "compile/toolchain.hpp"
#include "plan/choose.hpp"
#include "problem/problem.hpp"
#include "program/program.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;
namespace fs = std::filesystem;
namespace file = kda::base::file;
using kda::test::contains;
using kda::test::Environment;
using kda::test::run_case_apart;
using kda::test::Scratch;

namespace {

std::string key_field_of_built(const std::string& cache_dir) {
  const auto problem =
      problem::complete({.heads = 2, .key_dim = 32, .value_dim = 16, .max_tokens = 8});
  const device::Device device = *device::parse("h200");
  auto choice = plan::choose(*problem, device, {.strategy = "recurrent"});
  cache::Cache cache(cache_dir);
  const auto program = program::build(choice->recipe, device, cache);
  if (!program) return program.status().message();
  const auto unit = program::unit_of(program->kernels[0].stage, device);
  return cache.find(unit->key) ? *cache::value_of(unit->key.fields(), cache::kCompilerField)
                               : "built under another key";
}

}  // namespace

TEST_CASE("apart: a compiler is known", "[.]") {
  std::cout << "known " << *compile::identity() << "\n";
}

// The note says that these files are another compiler: so they were when it was written.
TEST_CASE("apart: a compiler is replaced before it compiles", "[.]") {
  const std::string dir = base::env::get("KDA_CACHE_DIR");
  std::cout << "known " << *compile::identity() << "\n";
  REQUIRE(file::touch(*compile::library_path()) == 0);
  std::cout << "built " << key_field_of_built(dir) << "\n";
  std::cout << "now " << *compile::identity() << "\n";
}

// The bug: the kernels that the new one made were kept under the old one's name, for all processes
// and for ever.
TEST_CASE("what a replaced compiler makes is kept under its own name", "[program]") {
  const std::string real = *compile::identity();
  const fs::path library = fs::canonical(*compile::library_path());
  const Scratch scratch;
  const fs::path copies = scratch.path() + "/lib";
  fs::create_directory(copies);
  for (const auto& each : fs::directory_iterator(library.parent_path())) {
    const std::string name = each.path().filename().string();
    if (!name.starts_with("libnvrtc") || name.find(".alt") != std::string::npos ||
        each.is_symlink() || name.ends_with(".a")) {
      continue;
    }
    fs::copy_file(each.path(), copies / name);
    // As a loader and NVRTC name them: libnvrtc.so.13, libnvrtc-builtins.so.13.0.
    const std::string major = name.substr(0, name.find(".so.") + 6);
    if (!fs::exists(copies / major)) fs::create_symlink(name, copies / major);
  }
  const std::string cache = scratch / "cache";
  const std::string named = (copies / library.filename()).string();
  const auto run = [&](const char* name) {
    return run_case_apart(name, {{"KDA_CACHE_DIR", cache}, {"KDA_NVRTC_PATH", named}});
  };
  const auto first = run("apart: a compiler is known");  // leaves a note
  INFO(first.output);
  CHECK_THAT(first.output, contains("known " + real));
  std::string note;
  REQUIRE(file::read(cache + "/toolchain.txt", 1 << 16, note) == 0);
  std::string settings = test::settings_of_note(note);
  settings.replace(settings.find("CL-"), 3, "CL-0");
  note = test::note_of(settings);
  REQUIRE(file::publish(scratch.path(), cache + "/toolchain.txt", note) == 0);
  const auto second = run("apart: a compiler is replaced before it compiles");
  INFO(second.output);
  CHECK_THAT(second.output, contains("known nvrtc") && contains("CL-0"));
  CHECK_THAT(second.output, contains("built " + real) && contains("now " + real));
}
