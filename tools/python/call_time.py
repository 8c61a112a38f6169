"""What a call costs, host included: ours beside FLA's, as a table and as JSON.

Three numbers a call, each the best of several rounds:
  host    from the call to its return while the GPU is idle: Python, checks, launches
  wall    a loop of calls and one wait at its end, over the number of calls
  gpu     the same between two CUDA events, of calls replayed as a CUDA graph

    python3 tools/python/call_time.py [--out FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any, Callable, Optional

import torch

import kda.torch

try:
    import fla.ops.kda as theirs
except ImportError:
    theirs = None

TOKENS = (1, 256, 2048, 8192)


def arguments(tokens: int, recurrent: bool) -> dict[str, Any]:
    """A layer of 16 heads of 128 channels as FLA's own layer calls it, bfloat16."""
    maker = torch.Generator("cuda").manual_seed(tokens)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=maker, device="cuda")

    H, D = 16, 128
    words: dict[str, Any] = {
        name: normal(1, tokens, H, D).bfloat16() for name in ("q", "k", "v", "g")
    }
    words.update(
        beta=normal(1, tokens, H).bfloat16(),
        A_log=normal(H),
        dt_bias=normal(H * D),
        initial_state=normal(1, H, D, D),
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        lower_bound=-5.0,
        state_v_first=True,
    )
    if not recurrent:
        words["safe_gate"] = True
    return words


def best(measure: Callable[[], float], rounds: int) -> float:
    return min(measure() for _ in range(rounds))


def host_us(call: Callable[[], Any], count: int) -> float:
    """The median of calls that find the GPU idle."""
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e6


def wall_us(call: Callable[[], Any], count: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count * 1e6


def gpu_us(call: Callable[[], Any], count: int) -> Optional[float]:
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
    except RuntimeError:  # a call that waits for the GPU cannot be captured
        torch.cuda.synchronize()
        return None
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    first.record()
    graph.replay()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / count * 1e3


def times_of(function: Callable[..., Any], words: dict[str, Any], quick: bool) -> dict[str, Any]:
    def call() -> Any:
        return function(**words)

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    rounds, count = (2, 20) if quick else (5, 100)
    gpu = [gpu_us(call, 10) for _ in range(rounds)]
    known = [x for x in gpu if x is not None]
    return {
        "host_us": best(lambda: host_us(call, count), rounds),
        "wall_us": best(lambda: wall_us(call, count), rounds),
        "gpu_us": min(known) if known else None,
    }


def measure(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for name, recurrent in (("fused_recurrent_kda", True), ("chunk_kda", False)):
        for tokens in TOKENS:
            if recurrent and tokens > 256:
                continue  # decode's call
            words = arguments(tokens, recurrent)
            for who, module in (("kda", kda.torch), ("fla", theirs)):
                if module is not None:
                    times = times_of(getattr(module, name), words, quick)
                    rows.append({"call": name, "tokens": tokens, "who": who, **times})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    def cell(value: Optional[float]) -> str:
        return "-" if value is None else f"{value:.1f}"

    keys = ("host_us", "wall_us", "gpu_us")
    who = [name for name in ("kda", "fla") if any(row["who"] == name for row in rows)]
    lines = [
        "| call | T | " + " | ".join(f"{w} {k[:-3]}" for k in keys for w in who) + " |",
        "|---|---|" + "---|" * (len(keys) * len(who)),
    ]
    for call, tokens in dict.fromkeys((row["call"], row["tokens"]) for row in rows):
        cells = []
        for key in keys:
            for name in who:
                row = [
                    r for r in rows if (r["call"], r["tokens"], r["who"]) == (call, tokens, name)
                ]
                cells.append(cell(row[0][key]) if row else "-")
        lines.append(f"| `{call}` | {tokens} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write calls.json and calls.md there")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    words = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("call_time.py needs a GPU")
    with torch.inference_mode():
        rows = measure(words.quick)
    machine = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kda": kda.__version__,
        "fla": None if theirs is None else __import__("fla").__version__,
        "command": "python3 tools/python/call_time.py",
    }
    text = table(rows)
    print(", ".join(f"{key} {value}" for key, value in machine.items() if value))
    print("microseconds a call; 16 heads of 128 channels, bfloat16, with states\n")
    print(text)
    if words.out:
        words.out.mkdir(parents=True, exist_ok=True)
        (words.out / "calls.json").write_text(
            json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n"
        )
        (words.out / "calls.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
