"""The arguments of FLA's calls that are no tensors: what they mean, and what FLA refuses."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from kda.problem import Gate
from kda.torch import _call, _pool
from kda.torch._call import Rule
from kda.torch._tensors import Tensors, check_cu_seqlens, check_types


class Words(NamedTuple):
    """A call's arguments that are no tensors."""

    scale: Optional[float]
    output_final_state: bool
    use_qk_l2norm_in_kernel: bool
    use_gate_in_kernel: bool
    use_beta_sigmoid_in_kernel: bool
    allow_neg_eigval: bool
    safe_gate: bool
    lower_bound: Optional[float]
    state_v_first: bool
    chunk_size: int
    recurrent: bool  # fused_recurrent_kda rather than chunk_kda
    beta_at_most_one: bool  # promised of what is no logit; FLA has no such word


# Words by which fused_recurrent_kda is a call on a pool of states.
PAGED = (
    "ssm_state_indices", "num_accepted_tokens", "committed_tokens", "inplace_final_state", "out",
)  # fmt: skip

# Words of other forms of these calls, by which a call would mean what it does not do here.
_ELSEWHERE = {
    **dict.fromkeys(PAGED, "kda.torch.paged_kda and fused_recurrent_kda take it"),
    "initial_state_indices": "kda.torch.paged_kda takes it",
    "checkpoint_indices": "kda.torch.paged_kda takes it",
    "checkpoint_tokens": "kda.torch.paged_kda takes it",
    "a_log": "A_log is its name here",
    "g_bias": "dt_bias is its name here",
    "compute_gate": "use_gate_in_kernel is its name here",
    "sigmoid_beta": "use_beta_sigmoid_in_kernel is its name here",
}


def refuse_elsewhere(name: str, kwargs: dict[str, Any], taken: tuple[str, ...] = ()) -> None:
    """Of keywords that FLA's calls would pass over: those that say what this call would not do."""
    for word in kwargs:
        if word not in _ELSEWHERE or word in taken:
            continue
        value = kwargs[word]
        if value is not None and not (isinstance(value, int) and value == 0):
            raise TypeError(f"{name} does nothing with {word}; {_ELSEWHERE[word]}")


def said(
    scale: Optional[float],
    output_final_state: bool,
    l2norm: bool,
    gate: bool,
    sigmoid: bool,
    neg_eigval: bool,
    safe_gate: bool,
    lower_bound: Optional[float],
    v_first: bool,
    chunk_size: int = 64,
    recurrent: bool = True,
    beta_at_most_one: bool = False,
) -> tuple[Any, ...]:
    """What Words(*said(...)) are, made at every call to find what was made of them."""
    return (
        None if scale is None else float(scale),
        output_final_state,
        l2norm,
        gate,
        sigmoid,
        neg_eigval,
        safe_gate,
        None if lower_bound is None else float(lower_bound),  # a tensor's key would be itself
        v_first,
        chunk_size,
        recurrent,
        beta_at_most_one,
    )


def rule_of(
    w: Words, state_type: torch.dtype = torch.float32, paging: _pool.Paging = _pool.Paging()
) -> Rule:
    """What the library computes for these words."""
    gate, lower_bound = Gate.log_decay, -5.0
    if w.use_gate_in_kernel:
        gate = Gate.softplus
        if w.lower_bound is not None:  # this alone decides, with or without safe_gate
            gate, lower_bound = Gate.bounded, _call.lower_bound_of(w.lower_bound)
    return Rule(
        0.0 if w.scale is None else _call.scale_of(w.scale),
        gate,
        lower_bound,
        w.use_beta_sigmoid_in_kernel,
        w.allow_neg_eigval,
        w.use_qk_l2norm_in_kernel,
        w.state_v_first,
        state_type,
        paging,
        w.beta_at_most_one and not w.use_beta_sigmoid_in_kernel,
    )


def check_packed(t: Tensors, pooled: bool) -> None:
    if t.cu_seqlens is None:
        return
    check_cu_seqlens(t.cu_seqlens)
    if t.q.shape[0] != 1:
        raise ValueError(
            f"cu_seqlens packs all sequences into one row, so the batch size must be 1, not "
            f"{t.q.shape[0]}: flatten the inputs to [1, T, ...] first"
        )
    sequences = t.cu_seqlens.shape[0] - 1
    if not pooled and t.initial_state is not None and t.initial_state.shape[0] != sequences:
        raise ValueError(
            f"initial_state holds {t.initial_state.shape[0]} states; cu_seqlens has {sequences} "
            "sequences"
        )


def check_gate(w: Words, t: Tensors) -> None:
    if w.use_gate_in_kernel and t.A_log is None and w.lower_bound is None:
        raise ValueError("A_log is missing: use_gate_in_kernel=True needs it or lower_bound")
    if w.safe_gate and w.use_gate_in_kernel:
        if w.lower_bound is None:
            raise ValueError("lower_bound is missing: safe_gate with use_gate_in_kernel needs it")
        if not -5 <= w.lower_bound < 0:
            bound = float(w.lower_bound)  # the compiler may have a symbol, which no text takes
            raise ValueError(f"lower_bound = {bound}; safe_gate needs it in [-5, 0)")
    if w.allow_neg_eigval and not w.use_beta_sigmoid_in_kernel:
        raise ValueError("allow_neg_eigval=True needs use_beta_sigmoid_in_kernel=True")


def check_dimensions(q: Tensor, v: Tensor) -> None:
    if q.dim() != 4 or v.dim() != 4:
        raise ValueError(
            f"q has the shape {list(q.shape)} and v {list(v.shape)}; they are [B, T, H, K] and "
            "[B, T, HV, V]"
        )


def check_shapes(w: Words, t: Tensors) -> None:
    # FLA's assertions are raised by name here, as python -O drops `assert`.
    check_dimensions(t.q, t.v)
    B, T, H, K = t.q.shape
    HV = t.v.shape[2]
    if t.q.shape != t.k.shape:
        raise AssertionError(f"q is {list(t.q.shape)} and k {list(t.k.shape)}; must be equal")
    if K > 256:
        message = f"K = {K}; kda has kernels for at most 256 key channels a head"
        if w.recurrent:  # where FLA has no limit
            raise NotImplementedError(message)
        raise AssertionError(message)
    if H == 0 or HV % H != 0:
        raise AssertionError(f"HV = {HV} value heads are no multiple of H = {H} query/key heads")
    if t.v.shape[:2] != (B, T):
        raise AssertionError(f"v is {list(t.v.shape)}; it must be [{B}, {T}, HV, V]")
    if w.recurrent and t.beta.dim() == 4:
        raise NotImplementedError(
            "beta has four dimensions: a beta for each value channel is not there yet; pass "
            "[B, T, HV]"
        )
    if t.g.shape != (B, T, HV, K):
        raise AssertionError(f"g is {list(t.g.shape)}; it must be {[B, T, HV, K]}")
    if t.beta.shape != (B, T, HV):
        raise AssertionError(f"beta is {list(t.beta.shape)}; it must be {[B, T, HV]}")


def check(w: Words, t: Tensors, pooled: bool = False) -> None:
    """FLA's own refusals, in its order and with its types; then ours that need no device, so that
    tracing comes upon them.  `pooled`: initial_state is a pool.
    """
    check_packed(t, pooled)
    if w.recurrent:
        check_gate(w, t)
    else:
        if t.initial_state is not None and t.initial_state.dtype != torch.float32:
            raise AssertionError(f"initial_state is {t.initial_state.dtype}; it must be float32")
        if w.chunk_size not in (32, 64):
            raise ValueError(f"chunk_size = {w.chunk_size}; it must be 32 or 64")
        check_gate(w, t)
    check_shapes(w, t)
    check_types(t)
    if pooled:
        assert t.initial_state is not None
        _pool.check_type(t.initial_state)
