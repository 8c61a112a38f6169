// What a launch costs the host, and its boundary the GPU: kernels launched one by one with and
// without the programmatic attribute, against graphs of the same whose parameters are set before
// each launch.  Idle: the GPU has ended all before a call; flowing: calls follow each other as fast
// as the host makes them; busy: all of a batch wait behind a kernel that runs.
#include <chrono>
#include <functional>
#include <memory>

#include "launch.cuh"
#include "launch_graph.cuh"

using namespace kda;
using namespace kda::launches;

namespace {

constexpr int batch = 50;  // calls before the host waits: far from filling the stream

enum class Queue { idle, flowing, busy };
constexpr const char* queues[] = {"idle", "flowing", "busy"};

struct Way {
  std::string name;
  int kernels = 0;
  int bytes = 0;  // of each kernel's parameters
  std::function<CUresult(int)> call;
  bool writes = true;  // every call has its own parameters
  int each = 1;        // calls made as one, for what is faster than a clock
};

struct Bench {
  CUstream stream = nullptr;
  Slots slots;
  Gate gate;
};

// Microseconds of so many calls each; empty where the driver refused one.
std::vector<double> times(Bench& bench, const Way& way, Queue queue, int calls, CUresult& result) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> all;
  for (int i = 0; i < calls && result == CUDA_SUCCESS; ++i) {
    if (queue == Queue::idle || i % batch == 0) {
      bench.gate.open();
      DRIVER(cuStreamSynchronize(bench.stream));
      if (queue == Queue::busy) bench.gate.shut(bench.stream);
    }
    const auto begin = Clock::now();
    for (int j = 0; j < way.each; ++j) result = way.call(i);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    all.push_back(took.count() / way.each);
  }
  bench.gate.open();
  DRIVER(cuStreamSynchronize(bench.stream));
  if (result != CUDA_SUCCESS) all.clear();
  return all;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<std::size_t>(part * values.size())];
}

std::string status_of(CUresult result, bool right) {
  return result != CUDA_SUCCESS ? name_of(result) : right ? "ok" : "wrong";
}

void measure(Bench& bench, const Way& way, Queue queue) {
  CUresult result = CUDA_SUCCESS;
  (void)times(bench, way, Queue::flowing, batch, result);  // warm
  bench.slots.clear();
  const int overdue = bench.gate.overdue();
  const std::vector<double> all = times(bench, way, queue, Slots::calls, result);
  const bool right = !way.writes || bench.slots.right(Slots::calls, way.kernels);
  bench::Row("launch")
      .add("way", way.name)
      .add("kernels", way.kernels)
      .add("bytes", way.bytes)
      .add("queue", queues[static_cast<int>(queue)])
      .add("median_us", quantile(all, 0.5))
      .add("p10_us", quantile(all, 0.1))
      .add("least_us", quantile(all, 0))
      .add("calls", static_cast<int>(all.size()) * way.each)
      .add("overdue", bench.gate.overdue() - overdue)  // batches in which the host had to wait
      .add("status", status_of(result, right))
      .print();
}

void measure(Bench& bench, const Way& way) {
  for (const Queue queue : {Queue::idle, Queue::flowing, Queue::busy}) measure(bench, way, queue);
}

constexpr const char* attributes[] = {"plain", "later programmatic", "programmatic"};

std::string name_of(const Setting& setting) {
  return std::string(attributes[static_cast<int>(setting.programmatic)]) +
         (setting.buffer ? ", buffer" : "") + (setting.function ? ", CUfunction" : "") +
         (setting.classic ? ", cuLaunchKernel" : "") +
         (setting.shared_bytes > 0 ? ", 200 KB shared" : "");
}

Way launches_way(Bench& bench, const Setting& setting) {
  auto call = std::make_shared<Call>(setting, bench.slots);
  return {name_of(setting), setting.kernels, setting.bytes, [call, &bench](int i) {
            call->set(i);
            return call->launch(bench.stream);
          }};
}

// A graph and the call that it was captured from; launched once, as a plan's would have been.
struct Kept {
  Kept(Bench& bench, const Setting& setting)
      : call(setting, bench.slots), graph(call, bench.stream) {
    (void)graph.launch(bench.stream);  // a refusal comes again where it is measured
  }
  Call call;
  Graph graph;
};

enum class Run { launch, set_one, set, set_and_launch };
constexpr const char* runs[] = {"launch", "set last", "set", "set, launch"};

Way graph_way(Bench& bench, const Setting& setting, Run run, bool buffer = false,
              bool any_node = false) {
  auto kept = std::make_shared<Kept>(bench, setting);
  kept->graph.by_buffer = buffer;
  kept->graph.by_any_node = any_node;
  Way way;
  way.name = "graph of " + name_of(setting) + ": " + runs[static_cast<int>(run)] +
             (buffer ? ", buffer" : "") + (any_node ? ", cuGraphExecNodeSetParams" : "");
  way.kernels = setting.kernels;
  way.bytes = setting.bytes;
  way.writes = run == Run::set_and_launch;
  way.call = [kept, run, &bench](int i) {
    kept->call.set(i);
    switch (run) {
      case Run::launch:
        return kept->graph.launch(bench.stream);
      case Run::set_one:
        return kept->graph.set(kept->call.setting().kernels - 1);
      case Run::set:
        return kept->graph.set();
      default:
        return kept->graph.set_and_launch(bench.stream);
    }
  };
  return way;
}

// So many graphs in turn, so that the one whose parameters are set ran a while ago.
Way turns_way(Bench& bench, const Setting& setting, int graphs) {
  std::vector<std::shared_ptr<Kept>> kept;
  for (int i = 0; i < graphs; ++i) kept.push_back(std::make_shared<Kept>(bench, setting));
  return {std::to_string(graphs) + " graphs of " + name_of(setting) + " in turn: set, launch",
          setting.kernels, setting.bytes, [kept, &bench](int i) {
            Kept& now = *kept[i % kept.size()];
            now.call.set(i);
            return now.graph.set_and_launch(bench.stream);
          }};
}

void measure_launches(Bench& bench) {
  constexpr Programmatic none = Programmatic::none;
  constexpr unsigned shared = 200 * 1024;
  for (const Setting& setting : {Setting{.kernels = 1, .programmatic = none},
                                 {.kernels = 1, .programmatic = none, .classic = true},
                                 {.kernels = 1},
                                 {.kernels = 1, .buffer = true},
                                 {.kernels = 1, .function = true},
                                 {.programmatic = none},
                                 {.programmatic = none, .classic = true},
                                 {.programmatic = Programmatic::later},
                                 {},
                                 {.buffer = true},
                                 {.function = true},
                                 {.buffer = true, .function = true},
                                 {.shared_bytes = shared},
                                 {.kernels = 3, .programmatic = none},
                                 {.kernels = 3},
                                 {.kernels = 3, .buffer = true}}) {
    measure(bench, launches_way(bench, setting));
  }
}

void measure_graphs(Bench& bench) {
  constexpr Programmatic none = Programmatic::none;
  for (const int kernels : {1, 2, 3}) {
    for (const Programmatic programmatic : {none, Programmatic::later, Programmatic::all}) {
      if (kernels == 1 && programmatic != Programmatic::all) continue;
      const Setting setting{.kernels = kernels, .programmatic = programmatic};
      measure(bench, graph_way(bench, setting, Run::launch));
      measure(bench, graph_way(bench, setting, Run::set_and_launch));
      if (kernels != 2) continue;
      measure(bench, graph_way(bench, setting, Run::set_one), Queue::idle);
      measure(bench, graph_way(bench, setting, Run::set), Queue::idle);
    }
  }
  measure(bench, graph_way(bench, {}, Run::set_and_launch, true));
  measure(bench, graph_way(bench, {}, Run::set_and_launch, false, true));
  measure(bench, graph_way(bench, {.shared_bytes = 200 * 1024}, Run::set_and_launch));
  measure(bench, turns_way(bench, {}, 2));
  measure(bench, turns_way(bench, {}, 8));
}

// How it grows with the parameters.
void measure_bytes(Bench& bench) {
  for (const int bytes : {600, 1000}) {
    measure(bench, launches_way(bench, {.kernels = 1, .bytes = bytes}));
    measure(bench, launches_way(bench, {.bytes = bytes}));
    measure(bench, launches_way(bench, {.bytes = bytes, .buffer = true}));
    measure(bench, graph_way(bench, {.bytes = bytes}, Run::launch));
    measure(bench, graph_way(bench, {.bytes = bytes}, Run::set_one), Queue::idle);
    measure(bench, graph_way(bench, {.bytes = bytes}, Run::set_and_launch));
  }
}

// What a run may have to ask first.
void measure_questions(Bench& bench) {
  CUstream stream = bench.stream;
  const auto question = [&](const char* name, std::function<CUresult(int)> call) {
    measure(bench, {name, 0, 0, std::move(call), false, 100}, Queue::idle);
  };
  question("nothing", [](int) { return CUDA_SUCCESS; });
  question("cuStreamIsCapturing", [=](int) {
    CUstreamCaptureStatus capturing;
    return cuStreamIsCapturing(stream, &capturing);
  });
  question("cuCtxGetCurrent", [](int) {
    CUcontext context;
    return cuCtxGetCurrent(&context);
  });
  question("cuStreamGetCtx", [=](int) {
    CUcontext context;
    return cuStreamGetCtx(stream, &context);
  });
  question("cuStreamGetId", [=](int) {
    unsigned long long id;
    return cuStreamGetId(stream, &id);
  });
}

// Of each kind of graph, what the capture made of the attributes.
void list_edges(Bench& bench) {
  for (const int kernels : {2, 3}) {
    for (const Programmatic programmatic :
         {Programmatic::none, Programmatic::later, Programmatic::all}) {
      const Setting setting{.kernels = kernels, .programmatic = programmatic};
      const Kept kept(bench, setting);
      const auto [edges, early] = kept.graph.edges();
      bench::Row("launch_edges")
          .add("graph", name_of(setting))
          .add("kernels", kernels)
          .add("edges", edges)
          .add("programmatic", early)
          .add("status", launches::name_of(kept.graph.status()))
          .print();
    }
  }
}

// Microseconds on the GPU of a call, in each of several rows of so many, after one to warm up.
std::vector<double> gpu_times(Bench& bench, const Way& way, int calls, CUresult& result) {
  CUevent begin, end;
  DRIVER(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  DRIVER(cuEventCreate(&end, CU_EVENT_DEFAULT));
  std::vector<double> all;
  for (int row = 0; row < 8; ++row) {
    DRIVER(cuEventRecord(begin, bench.stream));
    for (int i = 0; i < calls && result == CUDA_SUCCESS; ++i) result = way.call(i);
    DRIVER(cuEventRecord(end, bench.stream));
    DRIVER(cuEventSynchronize(end));
    float ms = 0;
    DRIVER(cuEventElapsedTime(&ms, begin, end));
    if (row > 0) all.push_back(1e3 * ms / calls);
  }
  DRIVER(cuEventDestroy(begin));
  DRIVER(cuEventDestroy(end));
  if (result != CUDA_SUCCESS) all.clear();
  return all;
}

// Kernels of some 20 us on every multiprocessor: what a call takes beyond them.  Here a graph's
// parameters are set while its launch before runs, too.
void measure_boundaries(Bench& bench) {
  constexpr int calls = 200;
  int khz = 0;
  CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  Setting setting{.blocks = static_cast<unsigned>(bench::multiprocessors()),
                  .clocks = khz / 1000 * 20};
  Setting long_one = setting;
  long_one.kernels = 1;
  long_one.clocks *= 100;
  CUresult result = CUDA_SUCCESS;
  const double spin =
      quantile(gpu_times(bench, launches_way(bench, long_one), 2, result), 0.5) / 100;

  const auto row = [&](const Way& way) {
    CUresult refused = CUDA_SUCCESS;
    bench.slots.clear();
    const std::vector<double> all = gpu_times(bench, way, calls, refused);
    const bool right = !way.writes || bench.slots.right(calls, way.kernels);
    bench::Row("launch_gpu")
        .add("way", way.name)
        .add("kernels", way.kernels)
        .add("kernel_us", spin)
        .add("us", quantile(all, 0.5))
        .add("least_us", quantile(all, 0))
        .add("beyond_us", quantile(all, 0.5) - way.kernels * spin)
        .add("calls", calls)
        .add("status", status_of(refused, right))
        .print();
  };
  for (const unsigned shared : {0U, 200U * 1024}) {  // with it none starts beside the one before
    setting.shared_bytes = shared;
    for (const Programmatic programmatic :
         {Programmatic::all, Programmatic::later, Programmatic::none}) {
      setting.programmatic = programmatic;
      row(launches_way(bench, setting));
      row(graph_way(bench, setting, Run::launch));
      row(graph_way(bench, setting, Run::set_and_launch));
    }
  }
}

}  // namespace

int main() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  Bench bench;
  DRIVER(cuStreamCreate(&bench.stream, CU_STREAM_NON_BLOCKING));
  list_edges(bench);
  measure_questions(bench);
  measure_launches(bench);
  measure_graphs(bench);
  measure_bytes(bench);
  measure_boundaries(bench);
}
