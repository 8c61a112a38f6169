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
import time

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


def _compile_only(share: int, shares: int) -> None:
    """Of each kernel's variants every shares-th, from `share` on, is compiled and run once."""
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner

    def once(call, quantiles):
        call()
        return [1.0] * len(quantiles)

    driver.active.get_benchmarker = lambda: once
    pruned = Autotuner.prune_configs

    def some(self, kwargs):
        configs = pruned(self, kwargs)
        return configs[share::shares] or configs[:1]

    Autotuner.prune_configs = some


def compile_all(cases: list[Case], seconds: float) -> list[str]:
    """Workers for each number of heads and kind, packed and not, that share its variants where there
    are cores for it; what failed, in words."""
    first: dict[tuple, Case] = {}
    for case in sorted(cases, key=lambda case: case.tokens):
        kind = (case.key_dim, case.value_dim, case.dtype, case.gate)
        first.setdefault((case.heads, case.value_heads, case.varlen, *kind), case)
    shares = max(1, ((os.cpu_count() or 1) - 1) // len(first)) if first else 1
    workers = {
        f"{case.name} {share + 1}/{shares}": subprocess.Popen(
            [sys.executable, __file__, json.dumps(vars(case)), str(share), str(shares)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Else Triton keeps the times that workers make up, and whoever tunes believes them.
            env={**os.environ, "FLA_CACHE_RESULTS": "0"},
        )
        for case in first.values()
        for share in range(shares)
    }
    failed = []
    ends = time.monotonic() + seconds
    for name, worker in workers.items():
        try:
            _, said = worker.communicate(timeout=max(0.1, ends - time.monotonic()))
            if worker.returncode != 0:
                failed.append(f"{name}: {said.strip().splitlines()[-1:]}")
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.communicate()
            failed.append(f"{name}: not done after {seconds:.0f} s")
    return failed


def _worker(case: Case, share: int, shares: int) -> None:
    import inputs
    from contenders import fla

    _compile_only(share, shares)
    contender = fla.Fla()
    sets = inputs.make(case)[:1]
    inputs.set_regime(sets, "strong")
    contender.prepare(case, sets).call(0)
    contender.recurrence(case, sets[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="compiles FLA's kernels for one case")
    parser.add_argument("case", type=json.loads)
    parser.add_argument("share", type=int)
    parser.add_argument("shares", type=int)
    asked = parser.parse_args()
    _worker(Case(**asked.case), asked.share, asked.shares)
