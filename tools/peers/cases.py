"""The named problems, read from kda-bench, so that they are those of src/reference/cases.cpp; and
some of other sizes, types and gates, for which no bar is set."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from typing import Optional

REGIMES = ("strong", "weak", "mixed")

# Run first, so that a run cut short has said something about many, some and few heads.
_FIRST = ("h64", "h16", "h8", "h32", "h4", "h12_t2048", "h96")


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of the table, where K = V = 128, all is bf16 and the gate bounded; or another kind."""

    name: str
    tokens: int
    heads: int
    value_heads: int
    cu_seqlens: tuple[int, ...]
    floor_us: Optional[float] = None
    bar_us: Optional[float] = None
    goal_us: Optional[float] = None
    key_dim: int = 128
    value_dim: int = 128
    dtype: str = "bf16"  # of q, k, v, g, beta and o: bf16, f16 or f32
    gate: str = "bounded"  # or softplus, which has no bound

    @property
    def is_usual(self) -> bool:
        """What every peer serves."""
        kind = (self.key_dim, self.value_dim, self.dtype, self.gate)
        return kind == (128, 128, "bf16", "bounded")

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


def _other(name: str, heads: int, tokens: int = 8192, **kind) -> Case:
    return Case(name, tokens, heads, heads, (0, tokens), **kind)


# One sequence each.
OTHERS = [
    _other("f32_h8", 8, dtype="f32"),
    _other("f32_h32", 32, dtype="f32"),
    _other("f16_h8", 8, dtype="f16"),
    _other("f16_h64", 64, dtype="f16"),
    _other("k256_h4", 4, key_dim=256, value_dim=256),
    _other("k256_h16", 16, key_dim=256, value_dim=256),
    _other("k64_h16", 16, key_dim=64, value_dim=64),
    _other("k64_h64", 64, key_dim=64, value_dim=64),
    _other("v256_h16", 16, value_dim=256),
    _other("softplus_h8", 8, gate="softplus"),
    _other("softplus_h32", 32, gate="softplus"),
    _other("softplus_h64", 64, gate="softplus"),
]
