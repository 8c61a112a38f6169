// Candidates to cubins, all cores at once and without the GPU; what cannot run well is dropped.
#pragma once

#include <span>
#include <vector>

#include "cache/cache.hpp"
#include "program/program.hpp"
#include "tune/measurement.hpp"

namespace kda::tune {

// What the kernels of a program need on the device.
Needs needs_of(const program::Program& program, const device::Device& device);

// Threads resident over the most that a multiprocessor holds; 0: not one block fits.
double occupancy(int registers, unsigned threads, std::size_t shared_bytes,
                 const device::Device& device);

// One measurement a candidate: ok with its needs, or why it is dropped (compile, spills,
// occupancy).  The default is kept though it spills.  Loads nothing.
std::vector<Measurement> build(std::span<const Listed* const> candidates,
                               const device::Device& device, cache::Cache& cache, unsigned threads);

}  // namespace kda::tune
