// One stage's source, and the key under which its cubin is kept.
#include <utility>
#include <vector>

#include "base/lazy.hpp"
#include "compose/embedded.hpp"
#include "compose/source.hpp"
#include "device/family.hpp"
#include "program/program.hpp"

namespace kda::program {

namespace {

// Raised when the meaning of a key's fields changes.
constexpr const char* kSchema = "kda kernel 2";

}  // namespace

std::span<const compile::Header> headers() {
  static constinit base::Lazy<const std::vector<compile::Header>> all;
  return all.get([] {
    std::vector<compile::Header> list;
    for (const compose::EmbeddedFile& file : compose::embedded_files()) {
      list.push_back({file.path, file.text});
    }
    return new const std::vector<compile::Header>(std::move(list));
  });
}

Result<Unit> portable_unit_of(const compose::Stage& stage, const device::Device& device) {
  const Result<device::Family> family = device::family_of(device);
  if (!family) return family.status();
  Result<compose::Source> source = compose::source_of(stage, *family);
  if (!source) return source.status();

  Unit unit;
  unit.job = {source->text, stage.entry, family->target, compile::options(family->target)};
  unit.key.add("schema", kSchema);
  unit.key.add("entry", stage.entry);
  unit.key.add("source", source->text);
  unit.key.add("templates", compose::templates_digest(source->path));
  for (const std::string& option : unit.job.options) unit.key.add("option", option);
  unit.key.add("target", family->target);
  unit.path = std::move(source->path);
  return unit;
}

Status add_compiler(Unit& unit) {
  const Result<std::string> compiler = compile::identity();
  if (!compiler) return compiler.status();
  unit.key.add(std::string(cache::kCompilerField), *compiler);
  return {};
}

Result<Unit> unit_of(const compose::Stage& stage, const device::Device& device) {
  Result<Unit> unit = portable_unit_of(stage, device);
  if (!unit) return unit;
  if (Status status = add_compiler(*unit); !status) return status;
  return unit;
}

Result<Unit> unit_at_hand(const compose::Stage& stage, const device::Device& device) {
  Result<Unit> unit = portable_unit_of(stage, device);
  if (unit) (void)add_compiler(*unit);
  return unit;
}

}  // namespace kda::program
