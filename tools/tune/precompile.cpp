#include "tune/precompile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "cache/cache.hpp"
#include "cli/failure.hpp"
#include "compose/source.hpp"
#include "device/family.hpp"
#include "program/program.hpp"
#include "tune/tuner.hpp"
#include "worker/process.hpp"

namespace kda::tune_tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kCoresAProcess = 8;
constexpr unsigned kMostProcesses = 8;
constexpr std::size_t kKernelsAThread = 2;  // of a batch; limits are looked at between two

unsigned cores() { return program::default_threads(); }

// Each kernel once, as a recipe of that stage alone, those of the first problems first.
std::vector<compose::Recipe> kernels_of(const Request& request, const device::Device& device,
                                        const std::vector<cli::Subject>& subjects) {
  const Result<device::Family> family = device::family_of(device);
  if (!family) return {};
  const tune::SearchOptions options = search_options_of(request);
  std::vector<compose::Recipe> kernels;
  std::set<std::string> seen;
  for (const cli::Subject& subject : subjects) {
    const auto looks = tune::first_looks(subject.problem, device, options);
    if (!looks) continue;  // the search will say why
    for (const tune::Listed& listed : *looks) {
      for (const compose::Stage& stage : listed.recipe.stages) {
        const Result<compose::Source> source = compose::source_of(stage, *family);
        if (!source || !seen.insert(source->text).second) continue;
        compose::Recipe one = listed.recipe;
        one.stages = {stage};
        kernels.push_back(std::move(one));
      }
    }
  }
  return kernels;
}

// Answers how many it came to.
std::size_t compile(std::vector<compose::Recipe> kernels, device::Device device,
                    cache::Cache& cache, unsigned threads, Clock::time_point until,
                    const std::function<void(std::size_t)>& done) {
  device.ordinal = -1;  // nothing is loaded
  const std::size_t batch = kKernelsAThread * threads;
  std::size_t first = 0;
  while (first < kernels.size() && !interrupted && Clock::now() < until) {
    const std::size_t end = std::min(kernels.size(), first + batch);
    std::vector<compose::Recipe> part(std::make_move_iterator(kernels.begin() + first),
                                      std::make_move_iterator(kernels.begin() + end));
    (void)program::build_all(std::move(part), device, cache, threads);
    first = end;
    done(first);
  }
  return first;
}

// The processes that are worth starting: none where their work would not reach this one.
unsigned processes_for(const Request& request, const cache::Cache& cache) {
  const std::string program = worker::own_program();
  const bool own = program.substr(program.rfind('/') + 1).starts_with("kda-tune");
  const bool kept =
      !cache.directory().empty() && base::env::cache_mode() == base::env::CacheMode::read_write;
  if (!own || !kept) return 1;
  if (request.processes > 0) return request.processes;
  return std::clamp(cores() / kCoresAProcess, 1U, kMostProcesses);
}

struct Child {
  worker::Process process;
  std::size_t done = 0;
};

// The children's last words on how far they are; false once it has ended.
bool listen(Child& child) {
  std::string line;
  for (;;) {
    switch (child.process.hear(line, Clock::now() + std::chrono::milliseconds(20))) {
      case worker::Process::Heard::too_late:
        return true;
      case worker::Process::Heard::ended:
        return false;
      case worker::Process::Heard::line:
        if (const auto done = base::parse_integer(line.substr(0, line.find(' ')))) {
          child.done = static_cast<std::size_t>(*done);
        }
    }
  }
}

// trouble: how a child ended that was not through.
std::size_t compile_in(unsigned processes, const Request& request, Clock::time_point until,
                       const std::function<void(std::size_t)>& on_done, std::string& trouble) {
  std::vector<Child> children;
  for (unsigned i = 0; i < processes; ++i) {
    std::vector<std::string> command = request.arguments;
    command.front() = worker::own_program();
    // Behind the subcommand: behind a -- it would be a problem.
    command.insert(command.begin() + 2, {"--slice", fmt::format("{}/{}", i, processes)});
    Result<worker::Process> process = worker::Process::start(command);
    if (process) children.push_back({*std::move(process)});
  }
  std::size_t ended = 0;  // kernels of children that are through
  const auto sum = [&] {
    std::size_t done = ended;
    for (const Child& each : children) done += each.done;
    return done;
  };
  while (!children.empty() && !interrupted && Clock::now() < until) {
    std::erase_if(children, [&](Child& each) {
      if (listen(each)) return false;
      ended += each.done;
      const std::string how = each.process.end();
      if (!how.starts_with("exit code 0")) trouble = how;
      return true;
    });
    on_done(sum());
  }
  return sum();  // those still at work are killed
}

}  // namespace

Precompiled precompile(const Request& request, const device::Device& device,
                       const std::vector<cli::Subject>& subjects, Clock::time_point until,
                       const std::function<void(std::size_t, std::size_t)>& on_progress) {
  const Clock::time_point start = Clock::now();
  const std::shared_ptr<cache::Cache> cache = cache::shared_cache(request.cache_dir);
  std::vector<compose::Recipe> kernels = kernels_of(request, device, subjects);
  Precompiled result;
  result.total = kernels.size();
  const auto done = [&](std::size_t kernels_done) { on_progress(kernels_done, result.total); };
  done(0);
  const unsigned processes = processes_for(request, *cache);
  result.processes = static_cast<int>(processes);
  if (processes > 1 && request.arguments.size() > 1) {
    result.kernels = compile_in(processes, request, until, done, result.trouble);
  } else {
    result.kernels = compile(std::move(kernels), device, *cache, cores(), until, done);
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

int compile_slice(const Request& request, const device::Device& device,
                  const std::vector<cli::Subject>& subjects) {
  worker::end_with(0);
  const std::size_t slash = request.slice.find('/');
  const auto own = base::parse_integer(request.slice.substr(0, slash));
  const auto all =
      base::parse_integer(request.slice.substr(std::min(slash, request.slice.size() - 1) + 1));
  if (slash == std::string::npos || !own || !all || *own < 0 || *own >= *all) {
    throw cli::Failure(cli::kBadCommand, "--slice " + request.slice + ": such as 0/8 is wanted");
  }
  std::vector<compose::Recipe> kernels = kernels_of(request, device, subjects), mine;
  for (std::size_t i = static_cast<std::size_t>(*own); i < kernels.size();
       i += static_cast<std::size_t>(*all)) {
    mine.push_back(std::move(kernels[i]));
  }
  const std::size_t total = mine.size();
  const std::shared_ptr<cache::Cache> cache = cache::shared_cache(request.cache_dir);
  const unsigned threads = std::max(1U, cores() / static_cast<unsigned>(*all));
  compile(std::move(mine), device, *cache, threads, Clock::time_point::max(),
          [&](std::size_t done) {
            fmt::print(request.output.out, "{} {}\n", done, total);
            std::fflush(request.output.out);
          });
  return cli::kOk;
}

}  // namespace kda::tune_tool
