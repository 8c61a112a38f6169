// The same again: bit for bit, in a graph, from many threads, in parts, beside NaN neighbours.
#include <cstring>
#include <thread>

#include "support/part.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

// Each strategy's plan for a problem, by the strategy's name.
struct Named {
  std::string name;
  Plan plan;
};
std::vector<Named> plans_of(const Problem& problem) {
  std::vector<Named> out;
  for (const Variant& variant : every_strategy()) {
    Options options;
    options.strategy = variant.strategy;
    Result<Plan> plan = Plan::make(problem, options);
    if (!plan && plan.status().code() == Code::unsupported) continue;
    INFO(variant.strategy << ": " << plan.status().message());
    CHECK(plan);
    if (plan) out.push_back({variant.strategy, *std::move(plan)});
  }
  CHECK(out.size() >= 2);  // `recurrent` and `chunk` serve every problem
  return out;
}

Forward part(const Problem& p, const Forward& whole, std::int64_t from, std::int64_t to,
             const void* before, void* after) {
  Forward f = part_of(p, whole, from, to);
  f.initial_state = before;
  f.final_state = after;
  return f;
}

std::vector<Trial> three_types(const std::string& words, std::vector<std::int64_t> lengths) {
  std::vector<Trial> out;
  for (const char* type : kTypes) out.push_back(complete(trial(all_types(type) + words, lengths)));
  return out;
}

}  // namespace

TEST_CASE("a run repeats bit for bit", "[gpu]") {
  for (const Trial& one : three_types("K=128 V=128 HV=4 varlen=1", {700, 0, 33, 64})) {
    const Gpu gpu;
    Truth truth(one);
    for (const Named& named : plans_of(one.problem)) {
      INFO(named.name << " | " << to_text(one));
      Rig rig(gpu, one, truth.tensors());
      CHECK(rig.run(named.plan) == "");
      const auto first = rig.output_bits();
      for (int again = 0; again < 10; ++again) {
        CHECK(rig.run(named.plan) == "");
        CHECK((rig.output_bits() == first));  // in brackets: Catch2 would print both
      }
    }
  }
}

TEST_CASE("a captured run replays as it ran", "[gpu]") {
  for (const Trial& one : three_types("varlen=1", {130, 0, 70})) {
    const Gpu gpu;
    const launch::Driver& driver = gpu.driver();
    Truth truth(one);
    for (const Named& named : plans_of(one.problem)) {
      INFO(named.name << " | " << to_text(one));
      Rig rig(gpu, one, truth.tensors());
      // First thing that this plan ever does: nothing may be loaded or allocated in the capture.
      const auto replay = [&](const Forward& forward, void* workspace, std::size_t bytes,
                              Stream stream) {
        CUgraph graph = nullptr;
        CUgraphExec executable = nullptr;
        must(driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin capture");
        const Status status = named.plan.run(forward, workspace, bytes, stream);
        must(driver.StreamEndCapture(stream, &graph), "end capture");
        if (!status) return status;
        must(driver.GraphInstantiate(&executable, graph, 0), "instantiate");
        for (int times = 0; times < 3; ++times) {
          rig.reset();
          gpu.synchronize();
          must(driver.GraphLaunch(executable, stream), "launch the graph");
          gpu.synchronize();
        }
        must(driver.GraphExecDestroy(executable), "destroy the graph");
        must(driver.GraphDestroy(graph), "destroy the graph");
        return Status();
      };
      CHECK(rig.run(replay, named.plan.workspace_bytes()) == "");
      CHECK(truth.judge(rig.outputs()) == "");
      const auto replayed = rig.output_bits();
      CHECK(rig.run(named.plan) == "");
      CHECK((rig.output_bits() == replayed));
    }
  }
}

TEST_CASE("many threads run one plan on streams of their own", "[gpu]") {
  for (const Trial& one : three_types("varlen=1 HV=4", {130, 3, 70})) {
    const Gpu gpu;
    Truth truth(one);
    for (const Named& named : plans_of(one.problem)) {
      INFO(named.name << " | " << to_text(one));
      Rig rig(gpu, one, truth.tensors());
      CHECK(rig.run(named.plan) == "");
      const auto expected = rig.output_bits();
      std::vector<std::string> failures(12);
      std::vector<std::thread> threads;
      for (std::string& failure : failures)
        threads.emplace_back([&] {
          try {
            const Gpu own;
            Rig mine(own, one, truth.tensors());
            for (int times = 0; times < 20 && failure.empty(); ++times) {
              failure = mine.run(named.plan);
              if (failure.empty() && mine.output_bits() != expected) failure = "other bits";
            }
          } catch (const std::exception& error) {
            failure = error.what();
          }
        });
      for (std::thread& thread : threads) thread.join();
      for (const std::string& failure : failures) CHECK(failure == "");
    }
  }
}

TEST_CASE("a run split anywhere is the whole run", "[gpu]") {
  constexpr std::int64_t T = 200;
  for (const Trial& one : three_types("K=128 V=64 HV=4", {T})) {
    const Gpu gpu;
    Truth truth(one);
    for (const Named& named : plans_of(one.problem)) {
      Rig rig(gpu, one, truth.tensors());
      for (const std::int64_t t : {0, 1, 15, 16, 31, 32, 33, 64, 65, 100, 128, 199, 200}) {
        INFO(named.name << " split at " << t << " | " << to_text(one));
        const auto split = [&](const Forward& f, void* workspace, std::size_t bytes,
                               Stream stream) {
          const Forward head = part(one.problem, f, 0, t, f.initial_state, f.final_state);
          const Forward tail = part(one.problem, f, t, T, f.final_state, f.final_state);
          const Status status = named.plan.run(head, workspace, bytes, stream);
          return status ? named.plan.run(tail, workspace, bytes, stream) : status;
        };
        CHECK(rig.run(split, named.plan.workspace_bytes()) == "");
        CHECK(truth.judge(rig.outputs()) == "");
      }
    }
  }
}

TEST_CASE("token by token is the whole run", "[gpu]") {
  for (const Trial& one : three_types("K=64 V=128 HV=4", {50})) {
    const Gpu gpu;
    Truth truth(one);
    for (const Named& named : plans_of(one.problem)) {
      INFO(named.name << " | " << to_text(one));
      Rig rig(gpu, one, truth.tensors());
      const auto steps = [&](const Forward& f, void* workspace, std::size_t bytes, Stream stream) {
        Status status;
        for (std::int64_t t = 0; t < f.tokens && status; ++t)
          status = named.plan.run(part(one.problem, f, t, t + 1,
                                       t == 0 ? f.initial_state : f.final_state, f.final_state),
                                  workspace, bytes, stream);
        return status;
      };
      CHECK(rig.run(steps, named.plan.workspace_bytes()) == "");
      CHECK(truth.judge(rig.outputs()) == "");
    }
  }
}

TEST_CASE("a sequence of NaN leaves its neighbours' bits alone", "[gpu]") {
  for (const Trial& one : three_types("varlen=1 H=1 HV=1", {33, 50, 1, 20, 64, 7})) {
    const Gpu gpu;
    Truth truth(one);
    const Problem& p = one.problem;
    for (const std::size_t spoilt : {1, 2, 4}) {
      reference::Tensors tensors = truth.tensors();
      const auto from = static_cast<std::size_t>(tensors.cu_seqlens[spoilt]);
      const auto to = static_cast<std::size_t>(tensors.cu_seqlens[spoilt + 1]);
      const auto spoil = [&](reference::Bytes& bytes) {
        const std::size_t row = bytes.size() / static_cast<std::size_t>(tensors.tokens);
        std::memset(bytes.data() + from * row, kPoison, (to - from) * row);
      };
      for (reference::Bytes* bytes :
           {&tensors.q, &tensors.k, &tensors.v, &tensors.g, &tensors.beta})
        spoil(*bytes);
      for (const Named& named : plans_of(p)) {
        INFO(named.name << " sequence " << spoilt << " | " << to_text(one));
        Rig clean(gpu, one, truth.tensors()), beside(gpu, one, tensors);
        CHECK(clean.run(named.plan) == "");
        CHECK(beside.run(named.plan) == "");
        reference::Outputs x = clean.outputs(), y = beside.outputs();
        const std::size_t V = p.value_dim, state = V * p.key_dim;
        const auto forget = [&](reference::Outputs& out) {
          std::fill_n(out.o.begin() + std::ptrdiff_t(from * V), (to - from) * V, 0.0);
          std::fill_n(out.final_state.begin() + std::ptrdiff_t(spoilt * state), state, 0.0);
        };
        forget(x);
        forget(y);
        CHECK((x.o == y.o));
        CHECK((x.final_state == y.final_state));
      }
    }
  }
}
