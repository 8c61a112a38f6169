"""How soon keys and gates make T of a segment small, and what giving it up leaves out, in f64.

    python3 tools/experiments/transition.py [--heads 3] [--tokens 8192]

T is what a segment makes of the state before it (tools/results/log/segments.md, "T given up
early").  Of each head under weak and mixed gates, as kda-bench draws them: the chunk's end at which
each half of T's columns is below 2^-10 and 2^-64 (None: later), and at the former, of 16 V columns,
the largest length of what a half makes of S_begin beside S_local's, and over them that of a key
channel.  On the CPU; needs numpy.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

K, COLUMNS, CHUNK = 128, 16, 32


def beside(both: np.ndarray, begin: np.ndarray, axis: int) -> str:
    """What either half of T's columns makes of S_begin beside S_local, by columns or channels."""
    written = np.linalg.norm(both[:, K:], axis=axis)
    halves = [both[:, at : at + 64] @ begin[at : at + 64] for at in (0, 64)]
    most = max((np.linalg.norm(left, axis=axis) / written).max() for left in halves)
    return f"2^{math.log2(most):.1f}"


def walk(regime: str, tokens: int, draw: np.random.Generator) -> str:
    rate, bias = math.exp(draw.random()), draw.random(K)
    bias[:: 1 if regime == "weak" else 2] = -8.0
    begin = np.zeros((K, COLUMNS))
    small: dict[int, list[int | None]] = {10: [None, None], 64: [None, None]}
    lost = "none"
    for after in (False, True):  # a segment that leaves S_begin, and the one behind it
        both = np.concatenate([np.eye(K), np.zeros((K, COLUMNS))], axis=1)  # T and S_local
        for token in range(1, tokens + 1):
            key = draw.standard_normal(K)
            key /= np.linalg.norm(key)
            beta = 1 / (1 + math.exp(-draw.standard_normal()))
            both *= np.exp(-5 / (1 + np.exp(-rate * (draw.standard_normal(K) + bias))))[:, None]
            value = np.concatenate([np.zeros(K), draw.standard_normal(COLUMNS)])
            both += beta * np.outer(key, value - key @ both)
            if not after or token % CHUNK != 0:
                continue
            for bits, found in small.items():
                for half in range(2):
                    columns = both[:, half * 64 : half * 64 + 64]
                    if found[half] is None and np.linalg.norm(columns) < 2.0**-bits:
                        found[half] = token
            if lost == "none" and None not in small[10]:
                lost = " and ".join(beside(both, begin, axis) for axis in (0, 1))
        begin = both[:, K:]
    return f"2^-10 {small[10]}, 2^-64 {small[64]}, lost {lost}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=8192)
    args = parser.parse_args()
    draw = np.random.default_rng(0)
    for regime in ("weak", "mixed"):
        for head in range(args.heads):
            print(f"{regime} gates, head {head}: {walk(regime, args.tokens, draw)}", flush=True)


if __name__ == "__main__":
    main()
