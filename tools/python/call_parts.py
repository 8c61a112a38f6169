"""Where the host time of a call from PyTorch goes: libkda's kda_plan_run, torch's memory, Python.

    python3 tools/python/call_parts.py [--limit US]

With a GPU the calls are real.  Without one they run on CPU tensors: a function of libm that returns 0
stands for kda_plan_run, and torch's CPU memory for the GPU's, so the column Python alone tells.
Microseconds, the best of many short loops; `total` is the call, the other parts are timed apart on the
same arguments, and Python is what they leave.  With --limit it is an error if that is more.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from typing import Any, Callable

import torch
from call_time import CHANNELS, HEADS, arguments

import kda
import kda.torch
from kda import _abi, _run, tensors
from kda.torch import _call

CASES = (
    *(("chunk_kda", 1, T) for T in (1, 256, 2048)),
    ("fused_recurrent_kda", 1, 1),
    ("fused_recurrent_kda", 1, 256),
    ("fused_recurrent_kda_fwd", 1, 1),
    ("fused_recurrent_kda_fwd", 64, 1),
    ("Plan.run", 1, 1),
    ("Plan.run", 1, 256),
)
HEAD = "| call | B | T | total | kda_plan_run | memory | Python |\n|---|---|---|---|---|---|---|"


class Seen:
    """kda_plan_run as ctypes calls it, with a memory of the last call's arguments."""

    def __init__(self, run: Callable[..., int]) -> None:
        self.run = run
        self.last: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> int:
        self.last = arguments
        return self.run(*arguments)


def stand_in() -> Callable[..., int]:
    """Lets calls run on CPU tensors, in this process alone; what replaces kda_plan_run."""

    def view(name: str, x: torch.Tensor) -> tensors.View:
        kind = tensors._TORCH_TYPES[str(x.dtype)]
        return tensors.View(x.data_ptr(), tuple(x.shape), tuple(x.stride()), kind, x)

    tensors._of_torch = view
    _run._want_workspace_of_torch = lambda *_: None
    _call.check = lambda *_: None
    _call.plan_for = lambda problem, _: kda.Plan(problem, kda.Options(target="sm_90a"))
    _call._current_device = lambda: -1
    _call._current_stream = lambda _: 0
    _call._empty = torch._C._dynamo.guards._empty_strided_cpu
    nothing = ctypes.CDLL("libm.so.6").fegetround
    nothing.restype, nothing.argtypes = _abi._CALLS["kda_plan_run"]
    return nothing


def best_us(call: Callable[[], Any], rounds: int, wait: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(50):  # fewer than a stream takes before a launch waits
            call()
        best = min(best, time.perf_counter() - start)
        wait()
    return best / 50 * 1e6


def plan_run(words: dict[str, Any]) -> Callable[[], None]:
    x = {name: words[name] for name in ("q", "k", "v", "g", "beta", "A_log", "initial_state")}
    x["dt_bias"] = words["dt_bias"].view(HEADS, CHANNELS)
    x["o"], x["final_state"] = torch.empty_like(x["v"]), torch.empty_like(x["initial_state"])
    problem = kda.Problem(
        heads=HEADS, max_tokens=x["q"].shape[1], initial_state=True, final_state=True
    )
    here = x["q"].is_cuda
    plan = kda.Plan(problem, kda.Options() if here else kda.Options(target="sm_90a"))
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device=x["q"].device)
    stream = None if here else 0
    return lambda: plan.run(**x, workspace=workspace, stream=stream)


def parts_of(name: str, rows: int, tokens: int, device: str, rounds: int) -> list[float]:
    pooled = name.endswith("_fwd")
    words = arguments(rows, tokens, pooled, device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    lib = _abi.library()
    run = lib.kda_plan_run
    seen, empty = Seen(run), _call._empty
    made: list[
        tuple[tuple[Any, ...], torch.Tensor]
    ] = []  # alive while its kda_plan_run is repeated

    def kept(*like: Any) -> torch.Tensor:
        made.append((like, empty(*like)))
        return made[-1][1]

    if name == "Plan.run":
        call = plan_run(words)
    else:
        function = getattr(kda.torch, name)
        call = lambda: function(**words)  # noqa: E731
    # A remembered call is watched, then forgotten: its Ready holds the watcher.
    lib.kda_plan_run, _call._empty = seen, kept
    forget()
    call()
    made.clear()
    call()
    lib.kda_plan_run, _call._empty = run, empty
    forget()
    for _ in range(3):
        call()
    wait()

    total = best_us(call, rounds, wait)
    library = best_us(lambda: run(*seen.last), rounds, wait)
    likes = [like for like, _ in made]
    allocation = best_us(lambda: [empty(*like) for like in likes], rounds, wait) if likes else 0.0
    return [total, library, allocation, total - library - allocation]


def forget() -> None:
    from kda.torch import _ops, fla, paged

    for known in (_ops._ready, fla._ready, paged._ready):
        known.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--limit", type=float, help="microseconds of Python that no call may exceed"
    )
    parser.add_argument("--rounds", type=int, default=200, help="loops of 50 calls")
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        _abi.library().kda_plan_run = stand_in()
    where = torch.cuda.get_device_name() if device == "cuda" else "no GPU: stand-ins"
    print(f"{where}, torch {torch.__version__}\n{HEAD}")
    slow = []
    with torch.inference_mode():
        for name, rows, tokens in CASES:
            parts = parts_of(name, rows, tokens, device, asked.rounds)
            cells = [f"`{name}`", str(rows), str(tokens), *(f"{part:.1f}" for part in parts)]
            print("| " + " | ".join(cells) + " |", flush=True)
            if asked.limit is not None and parts[-1] > asked.limit:
                slow.append(f"{name} B={rows} T={tokens}: {parts[-1]:.1f} us")
    if slow:
        raise SystemExit(f"more Python than {asked.limit} us: " + "; ".join(slow))


if __name__ == "__main__":
    main()
