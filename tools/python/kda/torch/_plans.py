"""One plan for many lengths: sizes are rounded up, and every plan is made once and kept."""

from __future__ import annotations

import functools

from kda.plan import Plan
from kda.problem import Options, Problem


def bucket(count: int) -> int:
    """Rounds up to an eighth of the power of two below, 8448 to 9216, so that many lengths share a plan.

    Its workspace is then at most an eighth too large.
    """
    if count <= 8:
        return max(count, 1)
    step = 1 << (count.bit_length() - 4)
    return -(-count // step) * step


@functools.lru_cache(maxsize=None)
def plan_for(problem: Problem, device: int) -> Plan:
    """The plan for `problem`, whose max_ fields are buckets, on the CUDA device of that ordinal."""
    return Plan(problem, Options(device=device))
