#include "tune/environment.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/digest.hpp"
#include "base/lazy.hpp"
#include "base/text.hpp"
#include "compile/nvrtc.hpp"
#include "compose/code.hpp"
#include "compose/embedded.hpp"
#include "tune/fields_of.hpp"

namespace kda::tune {

// Of what is compiled: a comment changes no time.
std::string templates_digest() {
  static constinit base::Lazy<const std::string> digest;
  return digest.get([] {
    std::string text;
    for (const compose::EmbeddedFile& file : compose::embedded_files()) {
      text += fmt::format("{}\n{}\n", file.path, base::digest(compose::code_of(file.text)));
    }
    return new const std::string(base::digest(text));
  });
}

Result<Environment> environment_of(const device::Device& device) {
  Result<std::string> compiler = compile::identity();
  if (!compiler) return compiler.status();
  return Environment{.device = device.name,
                     .major = device.major,
                     .minor = device.minor,
                     .multiprocessors = device.multiprocessors,
                     .l2_bytes = device.l2_bytes,
                     .templates = templates_digest(),
                     .compiler = *std::move(compiler),
                     .policy = kPolicy};
}

Json json_of(const Environment& e) {
  return {{"device", e.device},
          {"capability", fmt::format("{}.{}", e.major, e.minor)},
          {"multiprocessors", e.multiprocessors},
          {"l2_bytes", e.l2_bytes},
          {"templates", e.templates},
          {"compiler", e.compiler},
          {"policy", e.policy}};
}

Environment environment_of(Fields& from) {
  Fields fields(from.object("environment"), "environment");
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  Environment e;
  e.device = fields.text("device");
  const std::string capability = fields.text("capability");
  const std::size_t dot = capability.find('.');
  const auto major = base::parse_integer(capability.substr(0, dot));
  const auto minor =
      base::parse_integer(dot == std::string::npos ? "" : capability.substr(dot + 1));
  if (!major || !minor || *major < 0 || *major > 1000 || *minor < 0 || *minor > 1000) {
    fields.refuse("capability is not as in \"9.0\"");
  } else {
    e.major = static_cast<int>(*major);
    e.minor = static_cast<int>(*minor);
  }
  e.multiprocessors = static_cast<int>(fields.integer("multiprocessors", 0, kMost));
  e.l2_bytes = static_cast<std::size_t>(
      fields.integer("l2_bytes", 0, std::numeric_limits<std::int64_t>::max()));
  e.templates = fields.text("templates");
  e.compiler = fields.text("compiler");
  e.policy = fields.text("policy");
  if (!fields.status()) from.refuse(fields.status().message());
  return e;
}

std::string to_json(const Environment& environment) { return line_of(json_of(environment)); }

std::string digest(const Environment& environment) {
  return base::digest(to_json(environment)).substr(0, 16);
}

}  // namespace kda::tune
