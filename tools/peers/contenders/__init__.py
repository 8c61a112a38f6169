"""Who runs.  A contender turns one case's inputs into a call; one that cannot says why.

Each module here has a class with
    name            in the results
    __init__()      raises Missing where it cannot run on this machine
    refuses(case)   why it does not serve the case; empty where it does (only_usual, where it
                    serves what every peer does)
    prepare(case, sets) -> Prepared
    replayable      false where its calls may not be replayed from a graph; true if absent
and is made only by `present()`, so that nothing of a peer is imported before.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Callable, Optional

MODULES = ("ours", "fla", "cudnn", "flash_kda", "cula")


class Missing(Exception):
    """The contender cannot run here; the text says what it lacks."""


@dataclasses.dataclass
class Prepared:
    call: Callable[[int], tuple]  # set of inputs -> (o [T, HV, V], final state [N, HV, V, K])
    # Device memory of a call beside its inputs, o and final state; None: what PyTorch allocates.
    workspace_bytes: Optional[int] = None
    note: str = ""  # what was chosen, in words


def present(only: tuple[str, ...] = ()) -> tuple[list, dict[str, str]]:
    """The contenders that can run, ours first, and why the others cannot."""
    found, missing = [], {}
    for module in MODULES:
        for kind in importlib.import_module("contenders." + module).CONTENDERS:
            if only and kind.name not in only:
                continue
            try:
                found.append(kind())
            except Missing as reason:
                missing[kind.name] = str(reason)
    return found, missing


def only_usual(case) -> str:
    """What `refuses` says where a peer serves no other size, type or gate."""
    return "" if case.is_usual else "K = V = 128, bf16 and the bounded gate are served"


def torch_with_gpu():
    """PyTorch where it has a GPU; else None, and it has been said why nothing runs."""
    try:
        torch = imported("torch", "PyTorch with CUDA is needed")
    except Missing as reason:
        print(f"nothing was run: {reason}")
        return None
    if torch.cuda.is_available():
        return torch
    print("nothing was run: there is no GPU")
    return None


def imported(package: str, hint: str):
    """The package, or Missing with what Python said and where the package comes from."""
    try:
        return importlib.import_module(package)
    except Exception as error:  # a broken package is missing too, whatever it raises
        raise Missing(f"import {package}: {type(error).__name__}: {error}; {hint}") from error
