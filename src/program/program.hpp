// A Recipe to loaded kernels.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "compile/nvrtc.hpp"
#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "launch/graph_pool.hpp"
#include "launch/module.hpp"

namespace kda::program {

struct Kernel {
  compose::Stage stage;            // by the prelude that was taken
  std::vector<std::string> spilt;  // those before it
  std::string path;                // the template that served
  compile::Resources resources;
  cache::Origin origin;
  launch::Module module;  // empty when the device is only named
};

struct Program {
  compose::Recipe recipe;  // its stages moved into kernels
  std::vector<Kernel> kernels;
  std::shared_ptr<launch::GraphPool> graphs;  // of all kernels at once; null: one by one
};

// The stage as it is built once so many of its preludes have spilt; none: nothing has more room.
std::optional<compose::Stage> roomier(const compose::Stage& stage, int spilt);

// Threads that compile where nobody says how many: KDA_JIT_THREADS, or as many as cores.
unsigned default_threads();

// Finds or compiles every stage, at most `threads` at once (0: default_threads()), and loads them
// when the device is present.  Refuses kernels whose shared memory the device cannot give.
Result<Program> build(compose::Recipe recipe, const device::Device& device, cache::Cache& cache,
                      unsigned threads = 0);

// The same for several recipes with all their stages in one queue; a failure stays its own.
std::vector<Result<Program>> build_all(std::vector<compose::Recipe> recipes,
                                       const device::Device& device, cache::Cache& cache,
                                       unsigned threads = 0);

// From here on enqueue() launches the stages of a loaded program at once where it can: for one that
// runs often, as it takes time and memory of the device.
void keep_graphs(Program& program, const device::Device& device);

// Enqueues every stage of a loaded program; call's strides are filled in.
Status enqueue(const Program& program, const compose::Run& call, CUstream_st* stream);

// What makes two builds of a stage the same, and the source that NVRTC gets for it.
struct Unit {
  std::string path;  // the template that served
  cache::Key key;
  compile::Job job;
};
Result<Unit> unit_of(const compose::Stage& stage, const device::Device& device);
// The same without a compiler in the key, which finding a kernel in a bundle does not need; then
// what is missing, which may open NVRTC.
Result<Unit> portable_unit_of(const compose::Stage& stage, const device::Device& device);
Status add_compiler(Unit& unit);
// With a compiler in the key where this machine has one: for who only tells what there is.
Result<Unit> unit_at_hand(const compose::Stage& stage, const device::Device& device);

// Fails with compile_failed, under KDA_JIT=off too.
Result<cache::Entry> compile_unit(const Unit& unit, const cache::Cache& cache);

// The embedded templates as NVRTC takes them.
std::span<const compile::Header> headers();

}  // namespace kda::program
