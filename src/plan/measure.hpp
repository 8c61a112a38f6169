// Effort::measure: a search inside the application, on its device.
#pragma once

#include "cache/cache.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"
#include "tune/wisdom.hpp"

namespace kda::plan {

// The winner for the problem (complete) within what options leave open.  One at a time in a
// process.  A search over everything is recorded as wisdom; one that options narrow is not.  Fails
// with invalid_argument where the device is only named or something is being captured, and with
// device_error where nothing could be measured: no memory for the inputs, say.
Result<tune::Record> measure(const Problem& problem, const device::Device& device,
                             const Options& options, cache::Cache& cache, tune::Wisdom& wisdom);

}  // namespace kda::plan
