"""Times ours and every peer that is here on every case and gate regime, in one process.

tools/peers/compare.sh                     builds, finds the wheels, runs this
tools/peers/compare.sh h64 h16 --regime strong
tools/peers/compare.sh --others            other sizes, types and gates (cases.OTHERS)
tools/peers/compare.sh --list              who would run, and why the others would not
"""

from __future__ import annotations

import argparse
import math
import pathlib
import sys
import time
from typing import Optional

import cases as case_table
import contenders
import fla_choices
import provenance
import report

HERE = pathlib.Path(__file__).resolve().parent


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("case", nargs="*", help="names of cases; none: all")
    parser.add_argument("--kda-bench", default="kda-bench", help="the program that lists the cases")
    parser.add_argument(
        "--others", action="store_true", help="cases of other kinds, into others.json and others.md"
    )
    parser.add_argument("--regime", action="append", choices=case_table.REGIMES)
    parser.add_argument("--only", action="append", help="contenders by name; ours is always one")
    parser.add_argument("--seconds", type=float, default=330, help="no case starts after these")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder")
    parser.add_argument(
        "--fla-choices",
        type=pathlib.Path,
        help="FLA's autotuning of an earlier run (fla_choices.json beside this file, or "
        "others_fla_choices.json)",
    )
    parser.add_argument(
        "--tune", action="store_true", help="only FLA's autotuning; saves it in --out"
    )
    parser.add_argument("--list", action="store_true", help="print the contenders and stop")
    return parser.parse_args()


def choices_of(asked: argparse.Namespace) -> str:
    """The file of FLA's choices for these cases."""
    return "others_fla_choices.json" if asked.others else "fla_choices.json"


def list_contenders(only: tuple[str, ...]) -> None:
    found, missing = contenders.present(only)
    for contender in found:
        print(f"{contender.name}: runs")
    for name, why in missing.items():
        print(f"{name}: skipped: {why}")


def rel_l2(found, truth) -> Optional[float]:
    """Over all elements in f32; None where it is not finite."""
    found, truth = found.float(), truth.float()
    error = float(((found - truth).norm() / truth.norm()).item())
    return error if math.isfinite(error) else None


def judged(prepared: contenders.Prepared, inputs, truth: tuple) -> dict:
    """Errors against the truth, and the memory of a call."""
    import race

    o, state = prepared.call(0)
    found = {"o_rel_l2": rel_l2(o, truth[0]), "state_rel_l2": rel_l2(state, truth[1])}
    del o, state
    found["workspace_bytes"] = prepared.workspace_bytes
    if prepared.workspace_bytes is None:
        found["workspace_bytes"] = race.allocated(prepared.call) - inputs.output_bytes
    if prepared.note:
        found["note"] = prepared.note
    return found


class Run:
    """The loop over cases and regimes, and what has come of it."""

    def __init__(self, asked: argparse.Namespace):
        import torch

        self.torch = torch
        self.asked = asked
        self.started = time.monotonic()
        only = tuple(asked.only) + ("ours",) if asked.only else ()
        self.found, missing = contenders.present(only)
        self.fla = next((c for c in self.found if c.name == "fla"), None)
        self.document = {
            **provenance.of_run(torch, asked.kda_bench, "compare.sh"),
            "truth": "FLA's fused_recurrent_kda, token by token in f32" if self.fla else "ours",
            "missing": missing,
            "rows": [],
        }

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        print(f"[{self.elapsed():6.1f} s] {text}", file=sys.stderr, flush=True)

    def tell_who(self) -> None:
        self.say("running: " + ", ".join(contender.name for contender in self.found))
        for name, why in self.document["missing"].items():
            self.say(f"{name} skipped: {why}")

    def case(self, case: case_table.Case) -> None:
        import inputs

        sets = inputs.make(case)
        for regime in self.asked.regime or case_table.REGIMES:
            inputs.set_regime(sets, regime)
            self.document["rows"].append(self.row(case, regime, sets))
            report.write(self.asked.out, self.document, "others" if self.asked.others else "peers")
            self.torch.cuda.empty_cache()  # a graph's memory is its own and cannot be reused

    def row(self, case: case_table.Case, regime: str, sets: list) -> dict:
        import race

        truth = self.fla.recurrence(case, sets[0]) if self.fla else None
        graphs, found = {}, {}
        for contender in self.found:
            found[contender.name] = {}
            why = contender.refuses(case)
            if why:
                found[contender.name]["skipped"] = why
                continue
            try:
                prepared = contender.prepare(case, sets)
                truth = truth or prepared.call(0)
                found[contender.name].update(judged(prepared, sets[0], truth))
                way = race.Graph if getattr(contender, "replayable", True) else race.Queue
                graphs[contender.name] = way(prepared.call, len(sets))
            except Exception as error:  # one contender's failure costs only its own numbers
                reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
                found[contender.name]["skipped"] = reason
                self.say(f"{case.name} {regime}: {contender.name}: {reason}")
        for name, times in race.race(graphs).items():
            found[name].update(times)
            found[name]["timed_o_rel_l2"] = rel_l2(graphs[name].outputs[0], truth[0])
        times = ", ".join(f"{name} {its['us']:.1f}" for name, its in found.items() if "us" in its)
        self.say(f"{case.name} {regime}: {times}")
        return {
            "case": case.name,
            "regime": regime,
            "T": case.tokens,
            "H": case.heads,
            "HV": case.value_heads,
            "N": case.sequences,
            "K": case.key_dim,
            "V": case.value_dim,
            "dtype": case.dtype,
            "gate": case.gate,
            "sets": len(sets),
            "floor_us": case.floor_us,
            "bar_us": case.bar_us,
            "goal_us": case.goal_us,
            "contenders": found,
        }

    def all(self, cases: list[case_table.Case]) -> None:
        for case in cases:
            if self.elapsed() > self.asked.seconds:
                self.say(f"{case.name} and what follows: no time left")
                break
            self.case(case)
            if self.fla:
                fla_choices.save(self.asked.out / choices_of(self.asked))


def main() -> int:
    asked = options()
    if asked.list:
        list_contenders(tuple(asked.only or ()))
        return 0
    cases = case_table.OTHERS if asked.others else case_table.read(asked.kda_bench)
    unknown = set(asked.case) - {case.name for case in cases}
    if unknown:
        print("no such case: " + ", ".join(sorted(unknown)), file=sys.stderr)
        return 2
    cases = [case for case in cases if not asked.case or case.name in asked.case]
    if contenders.torch_with_gpu() is None:
        return 0
    asked.out.mkdir(parents=True, exist_ok=True)
    known = fla_choices.install(asked.fla_choices or HERE / choices_of(asked))
    run = Run(asked)
    run.tell_who()
    if run.fla:
        run.say("compiling FLA's kernels, " + ("as chosen before" if known else "every variant"))
        for failure in fla_choices.compile_all(cases, seconds=120 if known else 240):
            run.say("FLA worker: " + failure)
        fla_choices.tune_quickly()
    if asked.tune:
        run.found = [run.fla] if run.fla else []
        asked.regime = ["strong"]
    run.all(cases)
    for line in report.summary(run.document["rows"]):
        run.say(
            f"{line['peer']} over ours: geomean {line['geomean']:.2f}, least {line['least']:.2f} "
            f"at {line['least_at']}"
        )
    return 0 if run.document["rows"] else 1


if __name__ == "__main__":
    sys.exit(main())
