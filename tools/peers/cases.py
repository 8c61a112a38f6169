"""The named problems, read from kda-bench, so that they are those of src/reference/cases.cpp."""

from __future__ import annotations

import dataclasses
import json
import subprocess

REGIMES = ("strong", "weak", "mixed")

# Run first, so that a run cut short has said something about many, some and few heads.
_FIRST = ("h64", "h16", "h8", "h32", "h4", "h12_t2048", "h96")


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of the table; K = V = 128 and bf16 throughout."""

    name: str
    tokens: int
    heads: int
    value_heads: int
    cu_seqlens: tuple[int, ...]
    floor_us: float
    bar_us: float
    goal_us: float

    @property
    def sequences(self) -> int:
        return len(self.cu_seqlens) - 1

    @property
    def varlen(self) -> bool:
        return self.sequences > 1


def case_of(row: dict) -> Case:
    return Case(
        name=row["case"],
        tokens=row["T"],
        heads=row["H"],
        value_heads=row["HV"],
        cu_seqlens=tuple(row["cu_seqlens"]),
        floor_us=row["floor_us"],
        bar_us=row["bar_us"],
        goal_us=row["goal_us"],
    )


def read(kda_bench: str) -> list[Case]:
    """What `kda-bench --list` prints, the telling ones first."""
    listed = subprocess.run(
        [kda_bench, "--list", "--json", "-"], check=True, capture_output=True, text=True
    )
    cases = [case_of(row) for row in json.loads(listed.stdout)]
    order = {name: place for place, name in enumerate(_FIRST)}
    return sorted(cases, key=lambda case: order.get(case.name, len(order)))
