"""FLA's autotuned choices, kept from run to run, and its kernels compiled on all cores.

Cold, FLA compiles some eighty variants for each number of heads, one after another: a quarter of an
hour for the cases here.  Worker processes compile them at once into Triton's cache; the choices
that the measuring process then makes are saved, and a later run that brings them compiles only
those.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from cases import Case


def versions() -> dict[str, str]:
    found = {}
    for package in ("fla-core", "triton"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "none"
    return found


def install(path: pathlib.Path) -> bool:
    """Hands FLA the file's choices if they are of these versions.  Call it before importing fla."""
    if not path.is_file():
        return False
    saved = json.loads(path.read_text(encoding="utf-8"))
    if saved["versions"] != versions():
        return False
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fla_choices."))
    for kernel, entries in saved["kernels"].items():
        config = {"kernel_name": kernel, "autotune_entries": entries}
        (folder / f"{kernel}.json").write_text(json.dumps(config), encoding="utf-8")
    os.environ["FLA_CACHE_MODE"] = "strict"
    os.environ["FLA_CONFIG_DIR"] = str(folder)
    return True


def save(path: pathlib.Path) -> None:
    """Writes what this process's FLA kernels have chosen, given choices included."""
    from fla.ops.utils.cache import AutotuneKey, CachedAutotuner

    kernels: dict[str, dict] = {}
    for tuner in gc.get_objects():
        if not issubclass(type(tuner), CachedAutotuner):  # isinstance would ask proxies
            continue
        for key, config in tuner.cache.items():
            kernels.setdefault(tuner.kernel_name, {})[AutotuneKey.key_hash(key)] = {
                "autotune_key": AutotuneKey.normalize_autotune_key(key),
                "config": {
                    "kwargs": config.kwargs,
                    "num_warps": config.num_warps,
                    "num_stages": config.num_stages,
                    "num_ctas": config.num_ctas,
                    "maxnreg": config.maxnreg,
                },
            }
    document = {"versions": versions(), "kernels": kernels}
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def tune_quickly() -> None:
    """Triton times a variant for 25 ms instead of 125: GPU time is short."""
    from triton.runtime import driver
    from triton.testing import do_bench

    driver.active.get_benchmarker = lambda: (
        lambda call, quantiles: do_bench(call, warmup=5, rep=20, quantiles=quantiles)
    )


def _compile_only() -> None:
    from triton.runtime import driver

    def once(call, quantiles):
        call()
        return [1.0] * len(quantiles)

    driver.active.get_benchmarker = lambda: once


def compile_all(cases: list[Case], seconds: float) -> list[str]:
    """One worker for each number of heads, packed and not; what failed, in words."""
    first: dict[tuple, Case] = {}
    for case in sorted(cases, key=lambda case: case.tokens):
        first.setdefault((case.heads, case.value_heads, case.varlen), case)
    workers = {
        case.name: subprocess.Popen(
            [sys.executable, __file__, json.dumps(vars(case))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for case in first.values()
    }
    failed = []
    for name, worker in workers.items():
        try:
            _, said = worker.communicate(timeout=seconds)
            if worker.returncode != 0:
                failed.append(f"{name}: {said.strip().splitlines()[-1:]}")
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.communicate()
            failed.append(f"{name}: not done after {seconds:.0f} s")
    return failed


def _worker(case: Case) -> None:
    import inputs
    from contenders import fla

    _compile_only()
    contender = fla.Fla()
    sets = inputs.make(case)[:1]
    inputs.set_regime(sets, "strong")
    contender.prepare(case, sets).call(0)
    contender.recurrence(case, sets[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="compiles FLA's kernels for one case")
    parser.add_argument("case", type=json.loads)
    _worker(Case(**parser.parse_args().case))
