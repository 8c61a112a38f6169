"""What the kernels' roundings make of inputs far from a model's, on the CPU.

    python3 tools/experiments/rounding.py            # a second

One head of K = 128, V = 32, from no state unless said; steps and roundings as sm90/slabs and teams,
or with `groups` as sm90/factors, make a chunk's factors and as a chain walks them: f16, bf16 and
tf32 where they have these, f32 else.  Prints rel-L2 of o and of the last state against the f64 token
recurrence, and beside them what operands rounded to bf16 leave token by token
(tools/results/log/rounding.md).  Needs numpy.
"""

from __future__ import annotations

import numpy as np

F32, F64 = np.float32, np.float64
CHUNK, HALF = 32, 16
STRENGTH, KEY = F32(2**14), F32(2**15)  # sm90/factors/sizes.cuh
WHOLE_TF32 = F32(1 + float.fromhex("0x1.7p-11"))


def bf16(x):
    bits = np.asarray(x, F32).view(np.uint32)
    odd = (bits >> 16) & 1
    return ((bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)).astype(np.uint32).view(F32)


def f16(x):
    with np.errstate(over="ignore"):
        return np.asarray(x, F32).astype(np.float16).astype(F32)


def tf32(x):
    """Cut off, as mma does."""
    return (np.asarray(x, F32).view(np.uint32) & np.uint32(0xFFFFE000)).view(F32)


def product(a, b):
    return (a.astype(F64) @ b.astype(F64)).astype(F32)


def apart(tokens):
    """What the log decays of a chunk's tokens are multiplied by (sm90/slabs/gate.cuh)."""
    lane, sign = np.arange(tokens) % 8 // 2, 1 - np.arange(tokens) % 2 * 2
    return 1 / (1 + sign * (2 * lane + 1) * 0.92 / 8 * 2.0**-11)


def length_of_one(x):
    return (1 / np.sqrt((x.astype(F64) ** 2).sum(-1) + 1e-6)).astype(F32)


def log_decays(g, lower_bound):
    """Of the bounded gate, A_log and dt_bias absent."""
    with np.errstate(over="ignore"):
        return lower_bound / (1 + np.exp(-g.astype(F64)))


def recurrence(c, operand=lambda x: x, real=F64):
    q, k = (
        operand((c[x] / np.sqrt((c[x].astype(F64) ** 2).sum(-1, keepdims=True) + 1e-6)).astype(real))
        for x in "qk"
    )
    decays = np.exp(log_decays(c["g"], c["lower_bound"])).astype(real)
    state, rows = c["state"].astype(real), []
    for t, v in enumerate(c["v"].astype(real)):
        state = state * decays[t][:, None]
        written = operand((real(c["beta"][t]) * (v - k[t] @ operand(state))).astype(real))
        state = (state + np.outer(k[t], written)).astype(real)
        rows.append(real(c["scale"]) * (q[t] @ operand(state)))
    return np.array(rows), state


def inverse_of_eight(lower):
    x = np.eye(8, dtype=F32)
    for j in range(7):
        for i in range(j + 1, 8):
            x[i] = (x[i] - lower[i, j] * x[j]).astype(F32)
    return x


def inverse_of_half(scores, beta):
    """M diag(beta) times STRENGTH, of 16 tokens."""
    m = np.zeros((HALF, HALF), F32)
    lower = (scores * (WHOLE_TF32 * beta)[:, None]).astype(F32)
    for at in (slice(0, 8), slice(8, 16)):
        m[at, at] = f16(inverse_of_eight(lower[at, at]) * (beta[at] * STRENGTH)[None, :])
    below = f16(product(m[:8, :8].T, f16(WHOLE_TF32 * scores[8:, :8]).T))
    m[8:, :8] = f16(-product(below, m[8:, 8:].T) / STRENGTH).T
    return m


def chunks(c, slabs):
    """o and the last state, by chunks."""
    tokens = len(c["v"])
    state, rows = c["state"].astype(F32), []
    for first in range(0, tokens, CHUNK):
        own = min(CHUNK, tokens - first)

        def part(x):
            return np.concatenate([x[first : first + own], np.zeros((CHUNK - own,) + x.shape[1:], F32)])

        q, k, v, beta = (part(c[x]).astype(F32) for x in ("q", "k", "v", "beta"))
        scale = F32(c["scale"])
        q = q * (length_of_one(q) * (scale if slabs else F32(1)))[:, None]
        k = k * length_of_one(k)[:, None]
        logs = log_decays(part(c["g"]), c["lower_bound"]) / np.log(2)
        logs[own:] = 0
        logs = f16(logs * 4096 * apart(CHUNK)[:, None]) / F32(4096) if slabs else logs.astype(F32)
        size = F32(2.0 ** (14 - np.floor(np.log2(c["scale"])))) if slabs else F32(1)  # ScoreSize
        k_in, q_in, k_end, whole, inverse, scores = [], [], [], [], [], []
        for at in (slice(0, HALF), slice(HALF, CHUNK)):
            sums = np.cumsum(logs[at].astype(F64), 0)
            up, down = np.exp2(sums).astype(F32), np.exp2(-sums).astype(F32)
            k_in.append(k[at] * up)
            q_in.append(q[at] * up)
            k_end.append(k[at] * down * (up[-1] * KEY))
            whole.append(up[-1])
            inverse.append(inverse_of_half(product(tf32(k[at] * up), tf32(k[at] * down).T), beta[at]))
            scores.append(f16(size * np.tril(product(tf32(q[at] * up), tf32(k[at] * down).T))))
        end = [f16(x) for x in k_end]
        below = f16(-product(f16(k_in[1]), end[0].T) / KEY)
        queries = f16(product(f16(q_in[1]), end[0].T) * (size / KEY))
        low = f16(product(f16(product(inverse[0].T, below.T)), inverse[1].T) / STRENGTH)
        m, qk = np.zeros((2, CHUNK, CHUNK), F32)
        m[:HALF, :HALF], m[HALF:, HALF:], m[HALF:, :HALF] = inverse[0], inverse[1], low.T
        qk[:HALF, :HALF], qk[HALF:, HALF:], qk[HALF:, :HALF] = scores[0], scores[1], queries
        if slabs:
            early = product(inverse[0].T, end[0]) * whole[1]
        else:
            early = product(inverse[0].T, f16(k_end[0] * whole[1]))
        writers = np.concatenate([early + product(low, end[1]), product(inverse[1].T, end[1])])
        writers = bf16(bf16(writers) / (STRENGTH * KEY))
        outputs = bf16(bf16(product(qk, m)) / (STRENGTH * size))
        kd = bf16(np.concatenate([k_in[0], k_in[1] * whole[0]]))
        qd = bf16(np.concatenate([q_in[0], q_in[1] * whole[0]]))
        read = bf16(state)
        r = bf16(v - product(kd, read))
        o = product(qd, read) + product(outputs, r)
        rows.append(bf16(o if slabs else o * scale)[:own])
        state = state * (whole[0] * whole[1])[:, None] + product(writers.T, r)
    return np.concatenate(rows), state


def inputs(tokens=96, norm=1.0, keys="random", gate=None, beta=None, scale=128**-0.5, state=0.0,
           loud=1.0, lower_bound=-5.0):  # fmt: skip
    rng = np.random.default_rng(0)
    k, q, v = (rng.standard_normal((tokens, n)) for n in (128, 128, 32))
    if keys == "one":
        k = np.repeat(k[:1], tokens, 0)
    if keys == "correlated":
        k = 0.95 * np.repeat(k[:1], tokens, 0) + 0.3 * k
    q, k = (norm * x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    v[63 % tokens] *= loud  # a chunk's last
    g = rng.standard_normal((tokens, 128)) if gate is None else np.full((tokens, 128), gate)
    b = 1 / (1 + np.exp(-rng.standard_normal(tokens))) if beta is None else np.full(tokens, beta)
    return {
        **{name: bf16(x) for name, x in (("q", q), ("k", k), ("v", v), ("g", g))},
        "beta": b.astype(F32),
        "scale": scale,
        "lower_bound": lower_bound,
        "state": (state * rng.standard_normal((128, 32))).astype(F32),
    }


def off(x, truth):
    size = np.linalg.norm(truth)
    return np.linalg.norm(x - truth) / size if size > 0 else np.linalg.norm(x)


def row(name, c, slabs=True):
    o, state = recurrence(c)
    by_token, state_by_token = recurrence(c, bf16, F32)
    own_o, own_state = chunks(c, slabs)
    print(f"{name:44} o {off(own_o, o):.1e} ({off(bf16(by_token), o):.1e})"
          f"   state {off(own_state, state):.1e} ({off(state_by_token, state):.1e})")  # fmt: skip


def repeated_gate(tokens):
    """How far f16 log decays of a gate that repeats are off, of all gates, a nat of their sum."""
    exact = np.linspace(1024, 2048, 4001)[:, None]
    for name, factors in (("as slabs and teams", apart(tokens)), ("all alike", np.ones(tokens))):
        lost = np.abs((f16(exact * factors) - exact).mean(1)) / exact[:, 0]
        title = f"log decays {name}, {tokens} tokens"
        print(f"{title:44} {lost.max():.1e} at most, {lost.mean():.1e} on average")


def main():
    for scale in (128**-0.5, 1 / 1024):
        for norm in (1.0, 1e-4, 3e-5, 1e-5, 1e-6):
            row(f"rows of {norm:.0e}, scale {scale:.1e}", inputs(norm=norm, scale=scale))
    row("rows of 1e-06, groups", inputs(norm=1e-6), slabs=False)
    for tokens in (16, 64):
        for slabs in (True, False):
            row(f"no writes, -0.775 a token, {tokens} tokens{'' if slabs else ', groups'}",
                inputs(tokens, gate=-1.6953125, beta=0.0, state=1.0), slabs)  # fmt: skip
    for tokens in (11, 32):
        repeated_gate(tokens)
    for keys in ("one", "correlated", "random"):
        for loud in (1.0, 10.0, 30.0, 100.0):
            row(f"{keys} key(s), one v times {loud:.0f}",
                inputs(300, keys=keys, gate=-8.0, beta=1.0, loud=loud))  # fmt: skip
    for beta in (1e-9, 3e-10, 1e-10, 1e-12):
        row(f"all betas {beta:.0e}", inputs(beta=beta))


if __name__ == "__main__":
    main()
