"""What a call costs, host included: ours beside FLA's, as a table and as JSON.

Three numbers a call, each the best of several rounds:
  host    from the call to its return while the GPU is idle: Python, checks, launches
  wall    a loop of calls and one wait at its end, over the number of calls
  gpu     the same between two CUDA events, of calls replayed as a CUDA graph

    python3 tools/python/call_time.py [--out FOLDER] [--seconds N]

FLA's variants are compiled by all cores first (tools/peers/fla_choices.py).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Optional

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools" / "peers"))
os.environ["FLA_FLASH_KDA"] = "0"  # FLA's own kernels

import fla_choices  # noqa: E402
import torch  # noqa: E402
from cases import Case  # noqa: E402

import kda  # noqa: E402
import kda.torch  # noqa: E402

TOKENS = (1, 256, 2048, 8192)
HEADS, CHANNELS = 16, 128
Calls = dict[str, Callable[..., Any]]


def arguments(rows: int, tokens: int, pooled: bool, device: str = "cuda") -> dict[str, Any]:
    """A layer of 16 heads of 128 channels as FLA's own layer calls it, bfloat16."""
    maker = torch.Generator(device).manual_seed(tokens)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=maker, device=device)

    H, D = HEADS, CHANNELS
    words: dict[str, Any] = {
        name: normal(rows, tokens, H, D).bfloat16() for name in ("q", "k", "v", "g")
    }
    words.update(
        beta=normal(rows, tokens, H).bfloat16(),
        A_log=normal(H),
        dt_bias=normal(H * D),
        initial_state=normal(2 * rows if pooled else rows, H, D, D),
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        lower_bound=-5.0,
        state_v_first=True,
    )
    if pooled:
        slots = torch.randperm(2 * rows, generator=torch.Generator().manual_seed(1))[:rows]
        words["ssm_state_indices"] = slots.int().to(device)
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


def gpu_us(call: Callable[[], Any], count: int, rounds: int) -> Optional[float]:
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
    except RuntimeError as error:  # a call that waits for the GPU cannot be captured
        print(f"  not captured: {str(error).splitlines()[0]}")
        torch.cuda.synchronize()
        return None
    times = []
    for _ in range(rounds + 1):  # the first warms up
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        torch.cuda.synchronize()
        times.append(float(first.elapsed_time(last)))
    return min(times[1:]) / count * 1e3


def times_of(call: Callable[[], Any]) -> dict[str, Any]:
    for _ in range(3):
        call()
    return {
        "host_us": best(lambda: host_us(call, 50), 3),
        "wall_us": best(lambda: wall_us(call, 100), 3),
        "us": gpu_us(call, 10, 3),
    }


def theirs() -> Optional[Calls]:
    """FLA's calls, its chunked kernels compiled."""
    try:
        from fla.ops.kda import chunk_kda, fused_recurrent_kda
        from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd
    except Exception as error:  # missing or broken
        print(f"FLA is not here: {error}")
        return None
    start = time.time()
    case = Case("calls", 256, HEADS, HEADS, (0, 256), 0, 0, 0)
    for failure in fla_choices.compile_all([case], seconds=60):
        print(f"FLA worker: {failure}")
    fla_choices.tune_quickly()
    print(f"FLA's kernels compiled in {time.time() - start:.0f} s")
    calls = (chunk_kda, fused_recurrent_kda, fused_recurrent_kda_fwd)
    return {call.__name__: call for call in calls}


def measure(row: dict[str, Any], who: str, calls: Calls, fla: Optional[Calls]) -> None:
    """Fills in who's numbers: its error against FLA's recurrence, where there is FLA, and times."""
    name = row["call"]
    pooled = name.endswith("_fwd")
    words = arguments(row["B"], row["T"], pooled)
    start = words["initial_state"].clone()
    found = row["contenders"][who] = {}
    truth = None
    if fla is not None:
        truth = fla["fused_recurrent_kda_fwd" if pooled else "fused_recurrent_kda"](**words)[0]
        words["initial_state"].copy_(start)
    if name == "chunk_kda":
        words["safe_gate"] = True
    o = calls[name](**words)[0].float()
    if truth is not None:
        found["o_rel_l2"] = float((o - truth.float()).norm() / truth.float().norm())
    words["initial_state"].copy_(start)
    found.update(times_of(lambda: calls[name](**words)))


def rows_of() -> list[dict[str, Any]]:
    return [
        {"call": name, "B": batch, "T": tokens, "contenders": {}}
        for name, batch, tokens in (
            *(("chunk_kda", 1, T) for T in TOKENS),
            *(("fused_recurrent_kda", 1, T) for T in TOKENS[:2]),
            *(("fused_recurrent_kda_fwd", B, 1) for B in (1, 64)),
        )
    ]


HEAD = (
    "| call | B | T | ours: host | FLA | ours: wall | FLA | ours: gpu | FLA |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def line_of(row: dict[str, Any]) -> str:
    cells = [f"`{row['call']}`", str(row["B"]), str(row["T"])]
    for key in ("host_us", "wall_us", "us"):
        for who in ("ours", "fla"):
            value = row["contenders"].get(who, {}).get(key)
            cells.append("-" if value is None else f"{value:.1f}")
    return "| " + " | ".join(cells) + " |"


def commit() -> str:
    told = os.environ.get("KDA_COMMIT")
    if told:
        return told
    said = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return said.stdout.strip() or "unknown"


def write(out: Path, document: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "calls.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [
        "# What a call from PyTorch costs, in microseconds",
        "",
        f"{document['problem']}. {document['machine']}; kda {document['version']} "
        f"{document['commit']}; `{document['command']}`. host: until the call returns, GPU idle; "
        "wall: a loop of calls and one wait; gpu: calls in a CUDA graph. "
        "`fused_recurrent_kda_fwd` works in place on slots of a pool.",
        "",
        HEAD,
        *map(line_of, document["rows"]),
    ]
    (out / "calls.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write calls.json and calls.md there")
    parser.add_argument("--seconds", type=float, default=1e9, help="after these FLA is left out")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("call_time.py needs a GPU")
    ends = time.time() + asked.seconds
    document: dict[str, Any] = {
        "machine": f"{torch.cuda.get_device_name()}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {version}" for name, version in fla_choices.versions().items()),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "version": kda.__version__,
        "commit": commit(),
        "command": "tools/python/device_check.sh calltime",
        "truth": "FLA's fused_recurrent_kda, token by token in f32",
        "unit": "microseconds a call",
        "problem": f"{HEADS} heads of {CHANNELS} channels, bfloat16, gate and norms in the call, "
        "f32 states in and out",
    }
    print(document["machine"], document["commit"])
    with torch.inference_mode():
        fla = theirs()
        document["missing"] = {} if fla else {"fla": "not installed"}
        rows = document["rows"] = rows_of()
        # Ours first, and FLA's chunked kernels, which may yet compile, last.
        for who, calls in (("ours", vars(kda.torch)), ("fla", fla)):
            for row in sorted(rows, key=lambda row: row["call"] == "chunk_kda"):
                if calls is None or (who == "fla" and time.time() > ends):
                    continue
                measure(row, who, calls, fla)
                print(who, row["call"], row["B"], row["T"], row["contenders"][who], flush=True)
                if asked.out:  # after every one: a run cut short has these
                    write(asked.out, document)
    print(HEAD, *map(line_of, rows), sep="\n")


if __name__ == "__main__":
    main()
