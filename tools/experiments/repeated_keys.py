"""What each rounding of a chunk's factors leaves of keys that repeat, on the CPU, in f64.

    python3 tools/experiments/repeated_keys.py [--tokens 4096] [--beta 1] [--decay 1e-3]
    python3 tools/experiments/repeated_keys.py --care --type f16 --keys sparse --beta 0.9
    python3 tools/experiments/repeated_keys.py --care --type bf16 --keys sparse --beta 1.5

One head of K = V = 128 from no state, the same key at every token or others that are alike; steps
as sm90/factors and the chain take them (tools/results/log/chunk_wgmma.md, "Scores are made of
tf32" and "With care").  Prints rel-L2 of o (rounded to the type) and of the last state against the
recurrence token by token, times 1e-3: as the kernels round, with scores of bf16 as they were, and
with one rounding left out at a time; or, with care, with one term in place of each two.  Needs
torch.
"""

from __future__ import annotations

import argparse
from typing import Callable

import torch

Rounding = Callable[[torch.Tensor], torch.Tensor]
K = V = 128
CHUNK, HALF = 32, 16


def exact(x: torch.Tensor) -> torch.Tensor:
    return x


def bf16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).double()


def f16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float16).double()


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Cut off, as mma does."""
    return (x.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double()


def rounded_tf32(x: torch.Tensor) -> torch.Tensor:
    """To nearest, and cut off then."""
    return (x.float().view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32).double()


def two(to: Rounding, scale: float = 1.0) -> Rounding:
    """What a value, times the scale, rounds to, and what that leaves."""

    def rounding(x: torch.Tensor) -> torch.Tensor:
        first = to(x * scale)
        return (first + to(x * scale - first)) / scale

    return rounding


def times(to: Rounding, scale: float) -> Rounding:
    return lambda x: to(x * scale) / scale


KERNELS: dict[str, Rounding] = {
    "scores": tf32,  # within half a chunk
    "scores below": f16,
    "q k": f16,
    "M": f16,
    "Kr": f16,
    "Ak": bf16,
    "Aq": bf16,
    "rows": bf16,  # Kd and Qd
    "S": bf16,
    "R": bf16,
}
# sm90/factors/careful.cuh; three products of tf32 lose next to nothing.
CAREFUL: dict[str, dict[str, Rounding]] = {
    "bf16": {
        **KERNELS,
        "scores": rounded_tf32,
        "M": two(f16, 2.0**12),
        "Kr": two(f16, 2.0**15),
        "Ak": two(bf16),
    },
    "f16": {
        "scores": exact,
        "scores below": two(f16, 2.0**15),
        "q k": two(f16, 2.0**15),
        "M": two(f16, 2.0**14),
        "Kr": two(f16, 2.0**15),
        "Ak": times(f16, 1024),
        "Aq": times(f16, 1024),
        "rows": f16,
        "S": f16,
        "R": f16,
    },
}
TYPES: dict[str, Rounding] = {"bf16": bf16, "f16": f16}


class Inputs:
    def __init__(self, asked: argparse.Namespace):
        draw = torch.Generator().manual_seed(1)
        normal = lambda *shape: torch.randn(*shape, generator=draw, dtype=torch.float64)
        unit = lambda x: x / x.norm(dim=-1, keepdim=True)
        to = TYPES[asked.type]
        self.q = unit(to(normal(asked.tokens, K))) / K**0.5
        if asked.keys == "random":
            self.k = unit(to(normal(asked.tokens, K)))
        elif asked.keys == "correlated":
            alike = unit(normal(1, K)) + 0.33 * unit(normal(asked.tokens, K))
            self.k = unit(to(alike))
        else:
            some = normal(2 if asked.keys == "alternating" else 1, K)
            if asked.keys == "sparse":
                some[:, 3:] = 0
            self.k = unit(to(some)).repeat(asked.tokens, 1)[: asked.tokens]
        self.v = to(normal(asked.tokens, V))
        self.g = -asked.decay * torch.exp(0.5 * normal(asked.tokens, K))
        self.beta = asked.beta


def by_token(x: Inputs, to: Rounding) -> tuple[torch.Tensor, torch.Tensor]:
    state = torch.zeros(K, V, dtype=torch.float64)
    o = torch.zeros_like(x.v)
    for t in range(len(x.v)):
        state = state * x.g[t].exp()[:, None]
        u = x.beta * (x.v[t] - to(x.k[t]) @ to(state))
        state = state + torch.outer(to(x.k[t]), to(u))
        o[t] = to(x.q[t]) @ to(state)
    return o, state


def by_chunk(x: Inputs, to: dict[str, Rounding]) -> tuple[torch.Tensor, torch.Tensor]:
    state = torch.zeros(K, V, dtype=torch.float64)
    outputs = []
    # What makes up for the bits that tf32 loses (sm90/factors/sizes.cuh).
    whole = 1 + 1.4375 / 2048 if to["scores"] is tf32 else 1.0
    for at in range(0, len(x.v), CHUNK):
        k, q, v, decay = (y[at : at + CHUNK] for y in (x.k, x.q, x.v, x.g))
        decay = decay.cumsum(0)
        kk, qk = torch.zeros(2, CHUNK, CHUNK, dtype=torch.float64)
        for half in (slice(0, HALF), slice(HALF, CHUNK)):
            d = decay[half] - (decay[HALF - 1] if half.start else 0)
            down = to["scores"](k[half] * (-d).exp())
            kk[half, half] = to["scores"](k[half] * d.exp()) @ down.T * whole
            qk[half, half] = to["scores"](q[half] * d.exp()) @ down.T
        d = decay[HALF:] - decay[HALF - 1]
        out = to["scores below"](k[:HALF] * (decay[HALF - 1] - decay[:HALF]).exp())
        kk[HALF:, :HALF] = to["scores below"](k[HALF:] * d.exp()) @ out.T
        qk[HALF:, :HALF] = to["scores below"](q[HALF:] * d.exp()) @ out.T
        lower = torch.eye(CHUNK, dtype=torch.float64) + kk.tril(-1) * x.beta
        m = to["M"](torch.linalg.inv(lower) * x.beta)
        ak = to["Ak"](m.T @ to["Kr"](k * (decay[-1] - decay).exp()))
        aq = to["Aq"](to["q k"](qk.tril()) @ m)
        r = to["R"](v - to["rows"](k * decay.exp()) @ to["S"](state))
        outputs.append(to["rows"](q * decay.exp()) @ to["S"](state) + aq @ r)
        state = state * decay[-1].exp()[:, None] + ak.T @ r
    return torch.cat(outputs), state


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=320, help="a multiple of 32")
    parser.add_argument("--beta", type=float, default=1.0)
    parser.add_argument("--decay", type=float, default=1e-3, help="of a token, about")
    parser.add_argument("--type", choices=TYPES, default="bf16", help="of q, k, v and o")
    parser.add_argument(
        "--keys",
        choices=["same", "alternating", "sparse", "correlated", "random"],
        default="same",
        help="sparse: the same, of three channels",
    )
    parser.add_argument("--care", action="store_true", help="as groups with care")
    asked = parser.parse_args()
    x = Inputs(asked)
    to = TYPES[asked.type]
    truth = by_token(x, exact)

    def say(name: str, found: tuple[torch.Tensor, torch.Tensor], times: float = 1.0) -> None:
        errors = [float((a - b).norm() / b.norm()) for a, b in zip((to(found[0]), found[1]), truth)]
        print(f"{name:24} o {times * errors[0] * 1e3:6.2f}   state {times * errors[1] * 1e3:6.2f}")

    say("allowed (src/reference/error.hpp)", by_token(x, to), 1.5)
    if asked.care:
        care = CAREFUL[asked.type]
        say("as groups with care", by_chunk(x, care))
        less = {"scores": tf32, "scores below": f16, "q k": f16, "M": f16, "Kr": f16}
        for name, one in less.items():
            say(f"but {name} in one term", by_chunk(x, {**care, name: one}))
        say("all of these in one", by_chunk(x, {**care, **less}))
        return
    say("as the kernels", by_chunk(x, KERNELS))
    say("scores of bf16", by_chunk(x, {**KERNELS, "scores": bf16, "scores below": bf16}))
    for name in KERNELS:
        say(f"but {name} exact", by_chunk(x, {**KERNELS, name: exact}))


if __name__ == "__main__":
    main()
