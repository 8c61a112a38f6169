"""How near what a plan chooses without tuning or records comes to the best of what it could have:

    python3 tools/experiments/picks.py build/tools/kda-bench --json picks.json --md picks.md
    python3 tools/experiments/picks.py build/tools/kda-bench "T=4096 H=32" "H=8 seqlens=8x1024"

Each problem (in words, or one of kda-bench's cases; PROBLEMS where none is named) is timed under
weak gates by what is chosen and by WAYS.  Gates decide nothing there but for by_gates, which pays
beside chains for what it gains under strong ones.  Some 7 s a problem.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

KEPT = "h0=1 ht=1 pool=1 "
PACK = "varlen=1 pool=1 "
PROBLEMS = [
    *(f"T=8192 H={heads}" for heads in (8, 12, 16, 20, 24, 28, 32, 40, 48)),
    *(f"T={tokens} H=32" for tokens in (256, 1024, 2048, 4096, 16384)),
    *(f"T=16384 H={heads}" for heads in (12, 16, 24)),
    "T=8192 N=2 H=16",
    "T=8192 N=4 H=8",
    "T=8192 H=12 V=256",
    *(f"T=8192 K=64 V=128 H={heads}" for heads in (16, 24)),
    *(f"T=8192 K=64 V=64 {PACK}H={heads}" for heads in (16, 24)),
    *(f"T=8192 {PACK}H={heads}" for heads in (8, 12, 16, 24, 32, 40)),
    f"T=8192 {PACK}checkpoint=1024 H=32",
    f"T=8192 {PACK}checkpoint=256 H=12",
    f"T=8192 {KEPT}checkpoint=1024 H=16",
    *(f"T=8192 {KEPT}checkpoint=256 H={heads}" for heads in (24, 40, 48)),
    f"T=8192 {KEPT}checkpoint=64 H=24",
    "pool=1 mixed=1 H=8 seqlens=8192,32x1",
    "pool=1 mixed=1 H=12 seqlens=7000,300,700,192",
    "pool=1 H=8 seqlens=7000,300,700,192",
    "pool=1 H=8 seqlens=3000,3000,2192",
    "pool=1 H=16 seqlens=7000,300,700,192",
    "pool=1 H=16 seqlens=4x2048",
]

# What makes a row one to doubt or to repeat, of the row of what is chosen.
WHOSE = ("regime", "status", "device", "driver", "nvrtc", "version", "commit", "date", "command")

AT_ONCE = "stages_at_once=2 warpgroups={} preparers={}"
WAYS = [
    ["--strategy=" + name for name in ("fused", "segments", "by_lengths", "by_gates")],
    ["--strategy=chunk_wgmma", "--tuning=" + AT_ONCE.format(1, "72,86,100")],
    ["--strategy=chunk_wgmma", "--tuning=" + AT_ONCE.format(2, "86,100")],
    ["--strategy=chunk_wgmma", "--tuning=stages_at_once=1 warpgroups=1 preparers=100"],
]


def rows_of(bench, problem, way, repeats):
    """What was measured; none of what does not serve the problem."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.json"
        command = [bench, problem, "--gate-regime=weak", "--quiet", "--quick", *way]
        command += [f"--repeats={repeats}", f"--json={path}"]
        done = subprocess.run(
            command,
            env={**os.environ, "KDA_TUNE": "off"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if not path.exists():
            sys.exit(f"{problem} {' '.join(way)}: {done.stderr.strip()}")
        rows = json.loads(path.read_text(encoding="utf-8"))
    served = [row for row in rows if not row["status"].startswith("unsupported")]
    for row in served:
        if row["status"] != "ok":
            sys.exit(f"{problem}: {row['strategy']}: {row['status']}")
    return served


def name_of(row):
    return f"{row['strategy']} {row['tuning']}".strip()


def pick_of(bench, problem, repeats):
    chosen = rows_of(bench, problem, [], repeats)
    if not chosen:
        sys.exit(f"{problem}: nothing that is chosen ran")
    own = chosen[0]
    others = [row for way in WAYS for row in rows_of(bench, problem, way, repeats)]
    best = min([own, *others], key=lambda row: row["gpu_us"]["median"])
    return {
        "problem": problem,
        "chosen": name_of(own),
        "us": round(own["gpu_us"]["median"], 1),
        "best": name_of(best),
        "best_us": round(best["gpu_us"]["median"], 1),
        "tried": 1 + len(others),
        **{key: own.get(key, "") for key in WHOSE},
    }


def table(picks):
    lines = [
        "| problem | chosen | us | best tried | us | chosen / best |",
        "|---|---|---|---|---|---|",
    ]
    for pick in picks:
        best = "the same" if pick["best"] == pick["chosen"] else pick["best"]
        share = pick["us"] / pick["best_us"]
        lines.append(
            f"| {pick['problem']} | {pick['chosen']} | {pick['us']} | {best} | {pick['best_us']} "
            f"| {share:.2f} |"
        )
    within = sum(pick["us"] <= 1.05 * pick["best_us"] for pick in picks)
    lines += ["", f"{within} of {len(picks)} within 5% of the best tried."]
    return "\n".join(lines) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bench", help="kda-bench")
    parser.add_argument("problems", nargs="*", metavar="CASE|WORDS")
    parser.add_argument("--repeats", type=int, default=5, help="replays of each graph")
    parser.add_argument("--seconds", type=float, help="begin no problem after so many")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--md", type=pathlib.Path)
    asked = parser.parse_args(arguments)
    begun, picks = time.monotonic(), []
    problems = asked.problems or PROBLEMS
    for problem in problems:
        if asked.seconds is not None and time.monotonic() - begun > asked.seconds:
            print(f"{len(problems) - len(picks)} problems left out: the time is over")
            break
        picks.append(pick_of(asked.bench, problem, asked.repeats))
        # As soon as they are there, for what is cut short.
        if asked.json:
            rows = ",\n".join(json.dumps(pick) for pick in picks)
            asked.json.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
        if asked.md:
            asked.md.write_text(table(picks), encoding="utf-8")
    print(table(picks), end="")


if __name__ == "__main__":
    main()
