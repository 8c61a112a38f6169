#include "strategy/table.hpp"

#include "strategy/by_gates.hpp"
#include "strategy/by_lengths.hpp"
#include "strategy/chunk.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "strategy/fused.hpp"
#include "strategy/recurrent.hpp"
#include "strategy/segments.hpp"
#include "strategy/unit_steps.hpp"

namespace kda::strategy {

namespace {

constexpr const Strategy* kTable[] = {
    &recurrent, &chunk, &chunk_wgmma, &segments, &fused, &unit_steps, &by_lengths, &by_gates,
};

}  // namespace

std::span<const Strategy* const> table() { return kTable; }

const Strategy* find(std::string_view name) {
  for (const Strategy* strategy : table()) {
    if (name == strategy->name) return strategy;
  }
  return nullptr;
}

std::string known_names() {
  std::string names;
  for (const Strategy* strategy : table()) {
    if (!names.empty()) names += ", ";
    names += strategy->name;
  }
  return names;
}

}  // namespace kda::strategy
