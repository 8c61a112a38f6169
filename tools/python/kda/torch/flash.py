"""FlashKDA's call (flash_kda.fwd): same arguments, effects and errors, for more shapes.

Its gate is always the bounded one, its q and k are always normalised, beta is always a logit and the
state is always [V, K].  Unlike FlashKDA this takes any K up to 256, any V, grouped value heads,
float16 and float32, strided inputs, and carries the state in float32.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kda.problem import Gate
from kda._same import Known, remember
from kda.torch import _call, _ops, _tensors
from kda.torch._call import Rule
from kda.torch._pool import Paging
from kda.torch._tensors import Tensors, check_are_tensors, check_written, given


def _need(holds: bool, message: str) -> None:
    """FlashKDA's refusals are TORCH_CHECKs: RuntimeError."""
    if not holds:
        raise RuntimeError(message)


def _check(t: Tensors, out: Tensor, final_state: Optional[Tensor]) -> None:
    # torch 2.7 traces the class's _fields, and not the tuple's own.
    for name, x in (*zip(Tensors._fields, t), ("out", out), ("final_state", final_state)):
        _need(x is None or x.device.type in ("cuda", "meta"), f"{name} must be on a CUDA device")
    q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens = t
    _need(out is not None, "out is None; it takes o, as torch.empty_like(v) makes one")
    for name, x in (("q", q), ("k", k), ("v", v), ("g", g), ("out", out)):
        _need(x.dim() == 4, f"{name} has {x.dim()} dimensions; it must be [B, T, H, D]")
        _need(x.dtype in _tensors.DTYPES, f"{name} is {x.dtype}; bfloat16 is expected")
    B, T, H, K = q.shape
    HV, V = v.shape[2:]
    _need(k.shape == q.shape, f"k is {list(k.shape)} and q {list(q.shape)}; must be equal")
    _need(v.shape[:2] == (B, T), f"v is {list(v.shape)}; it must be [{B}, {T}, HV, V]")
    _need(H > 0 and HV % H == 0, f"v has {HV} heads, no multiple of q's {H}")
    _need(g.shape == (B, T, HV, K), f"g is {list(g.shape)}; it must be {[B, T, HV, K]}")
    _need(out.shape == v.shape, f"out is {list(out.shape)} and v {list(v.shape)}; must be equal")
    _need(out.is_contiguous(), "out must be contiguous")
    _need(k.dtype == q.dtype == v.dtype == out.dtype, "q, k, v and out must have one type")
    _need(beta.shape == (B, T, HV), f"beta is {list(beta.shape)}; it must be {[B, T, HV]}")
    _need(beta.dtype in _tensors.DTYPES, f"beta is {beta.dtype}; bfloat16 is expected")
    for name, x, shape in (("A_log", A_log, (HV,)), ("dt_bias", dt_bias, (HV, K))):
        _need(x is not None and x.dtype == torch.float32, f"{name} must be float32")
        assert x is not None
        _need(tuple(x.shape) == shape, f"{name} is {list(x.shape)}; it must be {list(shape)}")
    N = B
    if cu_seqlens is not None:
        _need(B == 1, f"B = {B}; with cu_seqlens it must be 1")
        _need(
            cu_seqlens.dim() == 1, f"cu_seqlens has {cu_seqlens.dim()} dimensions; it must be 1-D"
        )
        _need(
            cu_seqlens.dtype in _tensors.INDICES,
            f"cu_seqlens is {cu_seqlens.dtype}; int64 is expected",
        )
        N = cu_seqlens.shape[0] - 1
        _need(N > 0, "cu_seqlens must have at least 2 elements")
    for name, x in (("initial_state", initial_state), ("final_state", final_state)):
        if x is None:
            continue
        _need(x.is_contiguous(), f"{name} must be contiguous")
        _need(
            x.dtype in (torch.bfloat16, torch.float32),
            f"{name} is {x.dtype}; it must be bfloat16 or float32",
        )
        _need(
            tuple(x.shape) == (N, HV, V, K),
            f"{name} is {list(x.shape)}; it must be {[N, HV, V, K]}",
        )
    if initial_state is not None and final_state is not None:
        _need(
            initial_state.dtype == final_state.dtype,
            f"initial_state is {initial_state.dtype}, final_state {final_state.dtype}; must agree",
        )
    for name, x in (("out", out), ("final_state", final_state)):
        if x is not None:
            where = f"{x.dtype} on {x.device}; it must be, as q, on {q.device}"
            _need(x.device == q.device, f"{name} is {where}")
            check_written(name, x)


_ready: Known[_call.Ready] = {}


def _launch(
    ready: _call.Ready, tensors: tuple[Any, ...], out: Tensor, final_state: Optional[Tensor]
) -> None:
    _call.launch(ready, tensors, out, final_state)
    _call.tell_written((out,) if final_state is None else (out, final_state))


def flash_kda_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float,
    out: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    lower_bound: float,
    initial_state: Tensor | None = None,
    final_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
) -> None:
    """``flash_kda.fwd``: fills `out` and, if given, `final_state`.

    Args:
        q, k: ``[B, T, H, K]``, normalised here.
        v, out: ``[B, T, HV, V]``.
        g: ``[B, T, HV, K]``, before the gate ``lower_bound * sigmoid(exp(A_log) * (g + dt_bias))``.
        beta: ``[B, T, HV]``, logits.
        A_log, dt_bias: float32 ``[HV]`` and ``[HV, K]``.
        initial_state, final_state: ``[N, HV, V, K]``, both bfloat16 or both float32; may be one.
        cu_seqlens: ``[N + 1]``, then ``B = 1``.
    """
    tensors = (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens)
    if forward_ad._current_level >= 0:
        _ops.refuse_tangents("flash_kda_fwd", tensors, out=out, final_state=final_state)
    traced = _ops.is_traced(q)
    if not traced:
        there, outline = given(tensors)
        in_place = final_state is initial_state
        key = float(scale), float(lower_bound), in_place, final_state is None, outline
        there.append(out)
        if final_state is not None and not in_place:
            there.append(final_state)
        for same, ready in _ready.get(key, ()):
            if same(*there):
                _launch(ready, tensors, out, final_state)
                return
    check_are_tensors(tensors, out=out, final_state=final_state)
    t = Tensors(*tensors)
    _ops.refuse_gradients("flash_kda_fwd", t, out=out, final_state=final_state)
    state = final_state if final_state is not None else initial_state
    rule = Rule(
        _call.scale_of(scale),
        Gate.bounded,
        _call.lower_bound_of(lower_bound),
        True,
        False,
        True,
        True,
        torch.float32 if state is None else state.dtype,
        Paging(0, False, False),  # torch 2.7 traces no default that is a tuple of ours
    )
    _check(t, out, final_state)
    if traced:
        _ops.forward_out(rule, t, out, final_state)
        return
    ready = _call.prepare(rule, t, final_state is not None)
    remember(_ready, key, there, ready)
    _launch(ready, tensors, out, final_state)
