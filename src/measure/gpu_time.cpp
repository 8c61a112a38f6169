#include "measure/gpu_time.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "measure/failure.hpp"

namespace kda::measure {
namespace {

using launch::check;

constexpr double kSlowCall = 50e3;  // microseconds
constexpr int kSlowRepeats = 5;
constexpr int kMostCalls = 256;

class Event {
 public:
  explicit Event(const Gpu& gpu) : gpu_(gpu) {
    must(check(gpu.driver().EventCreate(&event_, CU_EVENT_DEFAULT), "cuEventCreate"));
  }
  ~Event() { gpu_.driver().EventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() { must(check(gpu_.driver().EventRecord(event_, gpu_.stream()), "cuEventRecord")); }
  double microseconds_since(const Event& start) const {
    float milliseconds = 0;
    must(check(gpu_.driver().EventElapsedTime(&milliseconds, start.event_, event_),
               "cuEventElapsedTime"));
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  const Gpu& gpu_;
  CUevent event_ = nullptr;
};

class Graph {
 public:
  Graph(const Gpu& gpu, const Call& call, int calls, int sets) : gpu_(gpu), calls_(calls) {
    const launch::Driver& driver = gpu.driver();
    must(check(driver.StreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
               "cuStreamBeginCapture"));
    for (int i = 0; i < calls; ++i) call(i % sets);
    CUgraph graph = nullptr;
    must(check(driver.StreamEndCapture(gpu.stream(), &graph), "cuStreamEndCapture"));
    const CUresult result = driver.GraphInstantiate(&executable_, graph, 0);
    driver.GraphDestroy(graph);
    must(check(result, "cuGraphInstantiate"));
  }
  ~Graph() { gpu_.driver().GraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int calls() const { return calls_; }
  void launch() {
    must(check(gpu_.driver().GraphLaunch(executable_, gpu_.stream()), "cuGraphLaunch"));
  }

 private:
  const Gpu& gpu_;
  int calls_;
  CUgraphExec executable_ = nullptr;
};

int calls_for(double microseconds, const GraphSettings& settings) {
  if (microseconds > kSlowCall) return 1;
  const int filling =
      static_cast<int>(std::min(std::ceil(settings.window / microseconds), double{kMostCalls}));
  const int wanted = std::max(settings.calls, filling);
  return (wanted + settings.sets - 1) / settings.sets * settings.sets;  // each set as often
}

}  // namespace

double rough_time(const Gpu& gpu, const Call& call) {
  constexpr int kCalls = 3;
  Event start(gpu), end(gpu);
  call(0);  // the warm-up; the timed ones queue up behind it
  start.record();
  for (int i = 0; i < kCalls; ++i) call(0);
  end.record();
  gpu.synchronize();
  return std::max(end.microseconds_since(start) / kCalls, 0.1);
}

double first_time(const Gpu& gpu, const Call& call) {
  Event start(gpu), end(gpu);
  start.record();
  call(0);
  end.record();
  gpu.synchronize();
  return std::max(end.microseconds_since(start), 0.1);
}

Summary call_times(const Gpu& gpu, const Call& call, int sets, int calls) {
  std::vector<std::unique_ptr<Event>> marks;
  for (int i = 0; i <= calls; ++i) marks.push_back(std::make_unique<Event>(gpu));
  call(0);  // the queue is never empty while the timed ones are enqueued
  marks.front()->record();
  for (int i = 0; i < calls; ++i) {
    call((i + 1) % sets);
    marks[static_cast<std::size_t>(i) + 1]->record();
  }
  gpu.synchronize();
  std::vector<double> times;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    times.push_back(std::max(marks[i]->microseconds_since(*marks[i - 1]), 0.1));
  }
  return summarize(times);
}

double copy_bandwidth(const Gpu& gpu) {
  constexpr int kRepeats = 9;
  const std::size_t bytes = std::min<std::size_t>(std::size_t{1} << 30, gpu.free_bytes() / 4);
  Buffer from(gpu, bytes), to(gpu, bytes);
  from.fill(1);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    Event start(gpu), end(gpu);
    start.record();
    to.copy_from(from);
    end.record();
    gpu.synchronize();
    times.push_back(end.microseconds_since(start));
  }
  return 2e6 * static_cast<double>(bytes) / summarize(times).median;
}

std::vector<GpuTime> graph_times(const Gpu& gpu, const std::vector<Call>& variants,
                                 const GraphSettings& settings) {
  if (variants.empty()) return {};
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<int> repeats;
  for (const Call& call : variants) {
    const double rough = rough_time(gpu, call);
    graphs.push_back(std::make_unique<Graph>(gpu, call, calls_for(rough, settings), settings.sets));
    repeats.push_back(rough > kSlowCall ? std::min(kSlowRepeats, settings.repeats)
                                        : settings.repeats);
  }
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::milli> warm_up(settings.warm_up_ms);
  do {
    for (const auto& graph : graphs) graph->launch();
    gpu.synchronize();
  } while (std::chrono::steady_clock::now() - start < warm_up);

  struct Sample {
    std::size_t variant;
    std::unique_ptr<Event> start, end;
  };
  std::vector<Sample> samples;
  for (int replay = 0; replay < settings.repeats; ++replay) {
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      if (replay >= repeats[i]) continue;
      samples.push_back({i, std::make_unique<Event>(gpu), std::make_unique<Event>(gpu)});
      samples.back().start->record();
      graphs[i]->launch();
      samples.back().end->record();
    }
  }
  gpu.synchronize();

  std::vector<std::vector<double>> times(graphs.size());
  for (const Sample& sample : samples) {
    times[sample.variant].push_back(sample.end->microseconds_since(*sample.start) /
                                    graphs[sample.variant]->calls());
  }
  std::vector<GpuTime> results;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    results.push_back({graphs[i]->calls(), summarize(times[i])});
  }
  return results;
}

}  // namespace kda::measure
