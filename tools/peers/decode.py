"""One token a sequence: ours beside FLA's fused_recurrent_kda, states in both layouts.

tools/peers/compare.sh decode                   builds, finds the wheels, runs this

Both are called by the same name with the same arguments, as an engine would: raw gate, beta logits,
q and k normalised inside, initial states given and final ones wanted, in f32; the rest bf16.
FLA's own layout is [K, V].  Writes decode_fla.json and .md into --out.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from typing import Callable, Optional

import provenance
from compare import rel_l2
from contenders import Missing, imported, torch_with_gpu

BATCHES = (1, 8, 64, 256)
LAYOUTS = ("[K, V]", "[V, K]")
H = 32
K = V = 128
_COLD_BYTES = 256 << 20  # sets of inputs together are several times the L2


def make(torch, batch: int, layout: str) -> list[dict]:
    """Sets of arguments."""
    draw = torch.Generator("cuda").manual_seed(1)

    def normal(*shape: int, dtype=torch.bfloat16):
        return torch.randn(*shape, dtype=dtype, device="cuda", generator=draw)

    value_first = layout == "[V, K]"
    state = (batch, H, V, K) if value_first else (batch, H, K, V)
    sets = -(-_COLD_BYTES // (8 * batch * H * K * V))
    return [
        dict(
            q=normal(batch, 1, H, K),
            k=normal(batch, 1, H, K),
            v=normal(batch, 1, H, V),
            g=normal(batch, 1, H, K),
            beta=normal(batch, 1, H),
            A_log=torch.rand(H, device="cuda", generator=draw),
            dt_bias=torch.rand(H * K, device="cuda", generator=draw),
            initial_state=normal(*state, dtype=torch.float32),
            scale=K**-0.5,
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            lower_bound=-5.0,
            state_v_first=value_first,
        )
        for _ in range(sets)
    ]


def contenders_of(torch) -> tuple[dict[str, Callable], dict[str, str]]:
    """The same call of each, and who is missing and why."""
    os.environ["FLA_FLASH_KDA"] = "0"
    calls, missing = {}, {}
    for name, module, hint in (
        ("ours", "kda.torch", "compare.sh builds libkda.so and sets PYTHONPATH"),
        ("fla", "fla.ops.kda", "tools/peers/wheels.sh fetches fla-core"),
    ):
        try:
            calls[name] = imported(module, hint).fused_recurrent_kda
        except Missing as reason:
            missing[name] = str(reason)
    return calls, missing


def row_of(torch, batch: int, layout: str, calls: dict[str, Callable]) -> dict:
    import race

    sets = make(torch, batch, layout)
    row: dict = {"batch": batch, "layout": layout, "sets": len(sets), "contenders": {}}
    graphs, results = {}, {}
    for name, function in calls.items():

        def call(i: int, function=function):
            with torch.no_grad():
                return function(**sets[i])

        results[name] = [x.clone() for x in call(0)]
        graphs[name] = race.Graph(call, len(sets))
    for name, times in race.race(graphs).items():
        row["contenders"][name] = times
    if len(results) == 2:
        ours = row["contenders"]["ours"]
        ours["o_rel_l2"], ours["state_rel_l2"] = map(rel_l2, results["ours"], results["fla"])
    return row


def table_of(document: dict) -> str:
    lines = [
        "# Decode beside FLA",
        "",
        f"fused_recurrent_kda of both, one token, H = {H}, K = V = {K}, f32 states; GPU time of a "
        f"call in a CUDA graph, how far o and the states are from FLA's. {document['machine']}, "
        f"{document['date']}, commit {document['commit']}, `{document['command']}`.",
        "",
        "| states | sequences | ours us | FLA us | FLA / ours | o | state |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        us = {name: its["us"] for name, its in row["contenders"].items()}
        both = len(us) == 2
        cells = [f"{us[name]:.1f}" if name in us else "-" for name in ("ours", "fla")]
        cells.append(f"{us['fla'] / us['ours']:.2f}" if both else "-")
        for what in ("o_rel_l2", "state_rel_l2") if both else ():
            error = row["contenders"]["ours"][what]
            cells.append("not finite" if error is None else f"{error:.1e}")
        cells += [] if both else ["-", "-"]
        lines.append(f"| {row['layout']} | {row['batch']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(folder: pathlib.Path, document: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "decode_fla.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "decode_fla.md").write_text(table_of(document))


def options(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder")
    parser.add_argument("--kda-bench", default="kda-bench", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Optional[list[str]] = None) -> int:
    asked = options(arguments)
    torch = torch_with_gpu()
    if torch is None:
        return 0
    calls, missing = contenders_of(torch)
    for name, why in missing.items():
        print(f"{name} skipped: {why}")
    document = {
        **provenance.of_run(torch, asked.kda_bench, "compare.sh decode"),
        "truth": "FLA's",
        "missing": missing,
        "rows": [],
    }
    for layout in LAYOUTS:
        for batch in BATCHES:
            row = row_of(torch, batch, layout, calls)
            document["rows"].append(row)
            times = ", ".join(f"{name} {its['us']:.1f}" for name, its in row["contenders"].items())
            print(f"{layout} {batch}: {times}", flush=True)
            write(asked.out, document)
            torch.cuda.empty_cache()  # a graph's memory is its own and cannot be reused
    return 0


if __name__ == "__main__":
    sys.exit(main())
