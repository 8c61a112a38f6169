"""GPU time of several contenders, measured in turn: each one's calls in a CUDA graph that is
replayed, or, of one that a graph does not suit, calls that are enqueued while the GPU is held up."""

from __future__ import annotations

import gc
import math
import statistics
from typing import Callable

import torch

Call = Callable[[int], object]  # runs once on the given set of inputs, on the current stream

_LEAST_CALLS = 2
_MOST_CALLS = 256  # in a graph
_WINDOW = 1e3  # microseconds that a graph should at least last
_REPLAYS = 15
_LEAST_REPLAYS = 5
_SECONDS = 0.12  # of GPU time a contender, regime and case; rounds shrink towards it


class Held:
    """Times what is enqueued while the GPU spins, so that no time of the host's is among it."""

    def __init__(self, enqueue: Callable[[], object], calls: int, seconds: float):
        self.calls = calls
        self._enqueue = enqueue
        self._cycles = int(seconds * 2e9)  # the clock does not exceed 2 GHz by much

    def microseconds(self) -> float:
        """Of one call."""
        while True:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(self._cycles)
            begin.record()
            self._enqueue()
            held = not begin.query()  # the GPU had not begun when the last call was enqueued
            end.record()
            end.synchronize()
            if held:
                return begin.elapsed_time(end) * 1e3 / self.calls
            if self._cycles > 1 << 31:
                raise RuntimeError(f"{self.calls} calls take the host more than a second")
            self._cycles *= 2


class Graph(Held):
    """A graph of calls that take the sets of inputs in turn, each as often."""

    def __init__(self, call: Call, sets: int):
        # The graph writes to what the call owns, and the next one's capture returns unused memory.
        self._call = call
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for i in range(2):  # whatever is made at a first call is made here, not while capturing
                call(i % sets)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call(0)
            end.record()
        torch.cuda.synchronize()
        calls = calls_for(begin.elapsed_time(end) * 1e3, sets)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for i in reversed(range(calls)):
                self.outputs = call(i % sets)  # at last of the first set; every replay writes them
        super().__init__(self.graph.replay, calls, seconds=0.5e-3)


class Queue(Held):
    """The same for calls that must be made anew: the GPU spins until all of them are enqueued."""

    def __init__(self, call: Call, sets: int):
        calls = max(_LEAST_CALLS, sets)
        self.outputs = call(0)
        torch.cuda.synchronize()

        def all_calls() -> None:
            for i in reversed(range(calls)):  # the first set last: what it gave is judged
                self.outputs = call(i % sets)

        super().__init__(all_calls, calls, seconds=3e-3)


def calls_for(microseconds: float, sets: int) -> int:
    """How many calls of about so long a graph has: the sets in whole rounds."""
    filling = min(_MOST_CALLS, math.ceil(_WINDOW / max(microseconds, 1.0)))
    return -(-max(_LEAST_CALLS, sets, filling) // sets) * sets


def race(graphs: dict[str, Graph | Queue]) -> dict[str, dict]:
    """Median, quartile distance and least microseconds of a call, by contender."""
    first = {}
    for name, graph in graphs.items():
        graph.microseconds()  # warms up
        first[name] = graph.microseconds()
    slowest = max((first[name] * graphs[name].calls for name in graphs), default=1.0) * 1e-6
    replays = min(_REPLAYS, max(_LEAST_REPLAYS, int(_SECONDS / slowest)))
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(replays):
        for name, graph in graphs.items():
            times[name].append(graph.microseconds())
    return {name: summary(values) for name, values in times.items()}


def summary(values: list[float]) -> dict:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"us": middle, "us_iqr": high - low, "us_least": min(values), "replays": len(values)}


def allocated(call: Call) -> int:
    """Most bytes that PyTorch's allocator held at once for one call, what it returned included."""
    gc.collect()  # else cycles of before, which hold tensors, may go while the call is watched
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    returned = call(0)
    torch.cuda.synchronize()
    del returned
    return torch.cuda.max_memory_allocated() - before
