// The subcommands of kda-tune: each prints to request.output, answers the exit code, and throws
// Failure.
#pragma once

#include "tune/request.hpp"

namespace kda::tune_tool {

int doctor(const Request& request);   // is this machine fit, and what was found
int list(const Request& request);     // strategies, tunables, devices, cases
int build(const Request& request);    // compile without a GPU; what the kernels need
int explain(const Request& request);  // which strategy and tuning, and why
int tune(const Request& request);     // measure, choose and record
int worker(const Request& request);   // what tune starts to measure in; not for people
int dump(const Request& request);     // source, PTX, SASS, resources of one problem's kernels

// kda-tune cache: the directory of compiled kernels
int cache_path(const Request& request);    // where it is, on stdout alone
int cache_stats(const Request& request);   // how much it holds, of what
int cache_ls(const Request& request);      // a row an entry
int cache_show(const Request& request);    // one entry's key and needs
int cache_verify(const Request& request);  // is each whole
int cache_gc(const Request& request);      // within its bytes
int cache_clear(const Request& request);   // all compiled kernels away

// kda-tune bundle: kernels for machines without a compiler
int bundle_create(const Request& request);
int bundle_ls(const Request& request);
int bundle_verify(const Request& request);

// kda-tune wisdom: the measurements
int wisdom_path(const Request& request);    // where they are, on stdout alone
int wisdom_ls(const Request& request);      // a row a record
int wisdom_show(const Request& request);    // all that the records of a problem say
int wisdom_find(const Request& request);    // what a plan would find
int wisdom_export(const Request& request);  // as JSON lines
int wisdom_import(const Request& request);
int wisdom_merge(const Request& request);  // files into one
int wisdom_verify(const Request& request);
int wisdom_prune(const Request& request);

int compare(const Request& request);  // two runs, row by row
int plot(const Request& request);     // journals to a page
// What tune --plot does too.  Throws Failure.
void write_plot(const std::vector<std::string>& journals, const std::string& file, std::FILE* out);

}  // namespace kda::tune_tool
