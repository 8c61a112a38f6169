"""One description of a call for all GPU tests: its inputs, the call, and what FLA's naive recurrence
says it should give."""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import torch
from naive import gated, recurrence

import kda.torch

try:
    from fla.ops.kda.naive import naive_recurrent_kda
except Exception:  # FLA is missing or broken: the same formula
    naive_recurrent_kda = None

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclasses.dataclass(frozen=True)
class Case:
    lengths: tuple[int, ...] = (64,)  # of the sequences
    packed: bool = False  # with cu_seqlens; otherwise all lengths are one
    H: int = 2
    groups: int = 1  # HV / H
    K: int = 64
    V: int = 64
    dtype: str = "bf16"
    gate_type: str = ""  # of g; empty: dtype
    beta_type: str = ""
    gate: str = "given"  # given, safe, softplus, softplus+bias, bounded, bounded+bias
    A_log: bool = True  # bounded gates may go without
    beta: str = "given"  # given, logit, doubled
    l2norm: bool = False
    scale: Optional[float] = None
    v_first: bool = False
    initial_state: bool = False
    final_state: bool = True
    layout: str = "contiguous"  # contiguous, head_first, packed_qkv
    cu_type: str = "i64"
    recurrent: bool = False  # fused_recurrent_kda instead of chunk_kda
    padding: int = 0  # tokens past the last sequence
    seed: int = 0

    @property
    def HV(self):
        return self.H * self.groups


@dataclasses.dataclass
class Inputs:
    tensors: dict
    words: dict


def _laid_out(x, layout):
    if layout == "head_first" and x.dim() == 4:
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "packed_qkv":  # a slice of something wider, poisoned
        wide = torch.full((*x.shape[:2], math.prod(x.shape[2:]) + 13), torch.nan, dtype=x.dtype,
                          device=x.device)  # fmt: skip
        wide[..., 5:-8] = x.flatten(2)
        return wide[..., 5:-8].unflatten(-1, x.shape[2:])
    return x


def inputs(case: Case, device="cuda") -> Inputs:
    maker = torch.Generator(device).manual_seed(case.seed)

    def normal(*shape):
        return torch.randn(shape, generator=maker, device=device)

    def uniform(*shape):
        return torch.rand(shape, generator=maker, device=device)

    c = case
    B, T = (1, sum(c.lengths) + c.padding) if c.packed else (len(c.lengths), c.lengths[0])
    q, k = normal(B, T, c.H, c.K), normal(B, T, c.H, c.K)
    if not c.l2norm:
        q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    g = normal(B, T, c.HV, c.K)
    if c.gate == "given":
        g = torch.nn.functional.logsigmoid(g) * (10 * uniform(1, 1, 1, c.K)).exp() / 20
    elif c.gate == "safe":
        g = torch.nn.functional.logsigmoid(g).clamp(-5, 0)
    beta = normal(B, T, c.HV)
    if c.beta == "given":
        beta = beta.sigmoid()
    kind = DTYPES[c.dtype]
    tensors = {
        "q": q.to(kind),
        "k": k.to(kind),
        "v": normal(B, T, c.HV, c.V).to(kind),
        "g": g.to(DTYPES[c.gate_type or c.dtype]),
        "beta": beta.to(DTYPES[c.beta_type or c.dtype]),
    }
    tensors = {name: _laid_out(x, c.layout) for name, x in tensors.items()}
    words = {
        "scale": c.scale,
        "output_final_state": c.final_state,
        "use_qk_l2norm_in_kernel": c.l2norm,
        "use_beta_sigmoid_in_kernel": c.beta != "given",
        "allow_neg_eigval": c.beta == "doubled",
        "state_v_first": c.v_first,
    }
    if c.gate not in ("given", "safe"):
        words["use_gate_in_kernel"] = True
        if c.A_log or not c.gate.startswith("bounded"):
            words["A_log"] = (1 + 15 * uniform(c.HV)).log()
        if c.gate.endswith("+bias"):
            words["dt_bias"] = normal(c.HV * c.K)
        if c.gate.startswith("bounded"):
            words["lower_bound"] = -5.0
    if not c.recurrent and c.gate != "given" and not c.gate.startswith("softplus"):
        words["safe_gate"] = True
    if c.initial_state:
        dims = (c.V, c.K) if c.v_first else (c.K, c.V)
        words["initial_state"] = normal(len(c.lengths), c.HV, *dims)
    if c.packed:
        ends = torch.tensor([0, *c.lengths]).cumsum(0)
        kinds = {"i32": torch.int32, "i64": torch.int64}
        words["cu_seqlens"] = ends.to(device, kinds[c.cu_type])
    return Inputs(tensors, words)


def tolerance(case: Case) -> float:
    """FLA's for o and the final state (its tests/ops/test_kda.py), and less for float32.

    Beta up to 2 on keys of unit length lets no error fade, where FLA tests none: twice as much.
    """
    if case.dtype == "f32":
        return 2e-4
    return 0.01 if case.beta == "doubled" else 0.005


def call(case: Case, x: Inputs):
    function = kda.torch.fused_recurrent_kda if case.recurrent else kda.torch.chunk_kda
    return function(**x.tensors, **x.words)


def expected(case: Case, x: Inputs):
    """o [B, T, HV, V] with zeros past the sequences, and the states as the call lays them out."""
    q, k, v, g, beta = (x.tensors[name] for name in ("q", "k", "v", "g", "beta"))
    w = x.words
    if case.l2norm:
        q, k = (torch.nn.functional.normalize(y.float(), dim=-1) for y in (q, k))
    if case.beta != "given":
        beta = beta.float().sigmoid() * (2 if case.beta == "doubled" else 1)
    if w.get("use_gate_in_kernel"):
        g = gated(g, w.get("A_log"), w.get("dt_bias"), w.get("lower_bound"))
    h0 = w.get("initial_state")
    if h0 is not None and case.v_first:
        h0 = h0.transpose(-1, -2)
    rows = [(i, 0, n) for i, n in enumerate(case.lengths)]
    if case.packed:
        ends = torch.tensor([0, *case.lengths]).cumsum(0).tolist()
        rows = [(0, a, b) for a, b in zip(ends, ends[1:])]
    o = torch.zeros_like(v, dtype=torch.float32)
    states = []
    if not case.packed:
        o, state = _naive(q, k, v, g, beta, case.scale, h0)
        states.append(state)
    else:
        for i, (row, a, b) in enumerate(rows):
            part = (y[row : row + 1, a:b] for y in (q, k, v, g, beta))
            start = None if h0 is None else h0[i : i + 1]
            o[row, a:b], state = _naive(*part, case.scale, start)
            states.append(state)
    states = torch.cat(states)
    return o, states.transpose(-1, -2) if case.v_first else states


def _naive(q, k, v, g, beta, scale, h0):
    if naive_recurrent_kda is None:
        return recurrence(q, k, v, g, beta, scale, h0)
    return naive_recurrent_kda(
        q.float(), k.float(), v.float(), g.float(), beta.float(), scale, h0, True
    )
