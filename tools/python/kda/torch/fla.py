"""flash-linear-attention's calls (fla.ops.kda): same names, arguments, defaults, results and errors.

Forward only.  What is not here yet raises NotImplementedError; what only chooses between FLA's own
kernels (safe_gate, chunk_size, disable_recompute, cu_seqlens_cpu) is checked as FLA does and
otherwise without effect.  Tensors of any strides are read in place where the last dimension is
contiguous.  cu_seqlens is read on the device alone: no call waits for the GPU.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from kda.problem import Gate
from kda.torch import _call, _ops
from kda.torch._call import Ready, Rule, Tensors


class _Words(NamedTuple):
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


def _rule_of(w: _Words) -> Rule:
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
        torch.float32,
    )


def _check_packed(t: Tensors) -> None:
    if t.cu_seqlens is None:
        return
    if t.q.shape[0] != 1:
        raise ValueError(
            f"cu_seqlens packs all sequences into one row, so the batch size must be 1, not "
            f"{t.q.shape[0]}: flatten the inputs to [1, T, ...] first"
        )
    sequences = t.cu_seqlens.shape[0] - 1
    if t.initial_state is not None and t.initial_state.shape[0] != sequences:
        raise ValueError(
            f"initial_state holds {t.initial_state.shape[0]} states; cu_seqlens has {sequences} "
            "sequences"
        )


def _check_gate(w: _Words, t: Tensors) -> None:
    if w.use_gate_in_kernel and t.A_log is None and w.lower_bound is None:
        raise ValueError("A_log is missing: use_gate_in_kernel=True needs it or lower_bound")
    if w.safe_gate and w.use_gate_in_kernel:
        if w.lower_bound is None:
            raise ValueError("lower_bound is missing: safe_gate with use_gate_in_kernel needs it")
        if not -5 <= w.lower_bound < 0:
            raise ValueError(f"lower_bound = {w.lower_bound}; safe_gate needs it in [-5, 0)")
    if w.allow_neg_eigval and not w.use_beta_sigmoid_in_kernel:
        raise ValueError("allow_neg_eigval=True needs use_beta_sigmoid_in_kernel=True")


def _check_shapes(w: _Words, t: Tensors) -> None:
    if t.q.dim() != 4 or t.v.dim() != 4:
        raise ValueError(
            f"q has the shape {list(t.q.shape)} and v {list(t.v.shape)}; they are [B, T, H, K] and "
            "[B, T, HV, V]"
        )
    B, T, H, K = t.q.shape
    HV = t.v.shape[2]
    assert t.q.shape == t.k.shape, f"q is {list(t.q.shape)} and k {list(t.k.shape)}; must be equal"
    if K > 256:
        message = f"K = {K}; kda has kernels for at most 256 key channels a head"
        if w.recurrent:  # where FLA has no limit
            raise NotImplementedError(message)
        raise AssertionError(message)
    assert HV % H == 0, f"HV = {HV} value heads are no multiple of H = {H} query/key heads"
    assert t.v.shape[:2] == (B, T), f"v is {list(t.v.shape)}; it must be [{B}, {T}, HV, V]"
    if w.recurrent and t.beta.dim() == 4:
        raise NotImplementedError(
            "beta has four dimensions: a beta for each value channel is not there yet; pass "
            "[B, T, HV]"
        )
    assert t.g.shape == (B, T, HV, K), f"g is {list(t.g.shape)}; it must be {[B, T, HV, K]}"
    assert t.beta.shape == (B, T, HV), f"beta is {list(t.beta.shape)}; it must be {[B, T, HV]}"


def _check(w: _Words, t: Tensors) -> None:
    """FLA's own refusals, in its order and with its types."""
    _check_packed(t)
    if w.recurrent:
        _check_gate(w, t)
    else:
        if t.initial_state is not None:
            assert t.initial_state.dtype == torch.float32, (
                f"initial_state is {t.initial_state.dtype}; it must be float32"
            )
        if w.chunk_size not in (32, 64):
            raise ValueError(f"chunk_size = {w.chunk_size}; it must be 32 or 64")
        _check_gate(w, t)
    _check_shapes(w, t)


def _covers_all(cu_seqlens_cpu: Optional[Tensor], tokens: int) -> bool:
    return (
        cu_seqlens_cpu is not None
        and cu_seqlens_cpu.device.type == "cpu"
        and int(cu_seqlens_cpu[-1]) == tokens
    )


_ready: dict[Any, Ready] = {}


def _run(
    name: str,
    words: tuple[Any, ...],
    tensors: tuple[Any, ...],
    cu_seqlens_cpu: Optional[Tensor] = None,
) -> tuple[Tensor, Optional[Tensor]]:
    """words and tensors are _Words and Tensors, as plain tuples for speed."""
    if torch.is_grad_enabled():
        _ops.refuse_gradients(name, Tensors(*tensors))
    if _ops.is_traced(tensors[0]):
        w, t = _Words(*words), Tensors(*tensors)
        _check(w, t)
        # Rows past the last sequence read as zeros, as FLA's callers expect.
        return _ops.forward(_rule_of(w), t, w.output_final_state, t.cu_seqlens is not None)
    key = (words, _call.signature(tensors))
    ready = _ready.get(key)
    if ready is None:
        w, t = _Words(*words), Tensors(*tensors)
        _check(w, t)
        ready = _ops.ready_for(_rule_of(w), t, w.output_final_state)
        if len(_ready) >= _ops.ROOM:
            _ready.clear()
        _ready[key] = ready
    zeroed = tensors[8] is not None and not _covers_all(cu_seqlens_cpu, tensors[0].shape[1])
    return _call.run(ready, tensors, zeroed)


def _state_v_first(given: bool, kwargs: dict[str, Any]) -> bool:
    if "transpose_state_layout" not in kwargs:
        return given
    if given:
        raise ValueError(
            "state_v_first and transpose_state_layout are one option under two names: pass the "
            "first alone"
        )
    warnings.warn(
        "transpose_state_layout is the old name of state_v_first",
        DeprecationWarning,
        stacklevel=3,
    )
    return bool(kwargs["transpose_state_layout"])


def chunk_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    disable_recompute: bool = False,
    return_intermediate_states: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    cp_context: Any = None,
    use_graph: bool = False,
    max_num_seqs: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """``fla.ops.kda.chunk_kda``: returns ``(o, final_state)``, the latter None unless asked for.

    Args:
        q, k: ``[B, T, H, K]``; float32, bfloat16 or float16, as v and the result.
        v: ``[B, T, HV, V]``, HV a multiple of H.
        g: ``[B, T, HV, K]``, the log decay; with `use_gate_in_kernel` what the gate makes it from.
        beta: ``[B, T, HV]``; with `use_beta_sigmoid_in_kernel` logits.
        scale: multiplies q; None is K ** -0.5.
        initial_state: float32 ``[N, HV, K, V]``, with `state_v_first` ``[N, HV, V, K]``.
        lower_bound: makes the gate ``lower_bound * sigmoid(exp(A_log) * (g + dt_bias))`` instead of
            ``-exp(A_log) * softplus(g + dt_bias)``.
        cu_seqlens: ``[N + 1]`` on the device, int32 or int64, for sequences packed into ``B = 1``.
        cu_seqlens_cpu: the same on the host.  Where it says that the sequences fill all T tokens, o
            need not be zeroed first.
        use_graph, max_num_seqs: nothing depends on them: every call may be captured, and replays
            with other contents of cu_seqlens.
        A_log, dt_bias (keywords): ``[HV]`` and ``[HV * K]`` of the gate.
    """
    if cp_context is not None:
        raise NotImplementedError(
            "chunk_kda: cp_context is not there yet (context parallelism); gather the sequence on "
            "one device, or pass states along with initial_state and output_final_state"
        )
    if return_intermediate_states:
        raise NotImplementedError(
            "chunk_kda: return_intermediate_states is not there yet; run the sequence in parts with "
            "output_final_state=True, each part's state is what you want"
        )
    chunk_size = 64
    A_log = dt_bias = None
    if kwargs:
        state_v_first = _state_v_first(state_v_first, kwargs)
        chunk_size = kwargs.get("chunk_size", 64)
        if use_gate_in_kernel:
            A_log, dt_bias = kwargs.get("A_log"), kwargs.get("dt_bias")
    if use_graph and max_num_seqs is not None and cu_seqlens is not None:
        assert cu_seqlens.shape[0] - 1 == max_num_seqs, (
            f"cu_seqlens has {cu_seqlens.shape[0] - 1} sequences and max_num_seqs = {max_num_seqs}; "
            "pad it with empty sequences"
        )
    words = (
        scale if scale is None else float(scale),
        output_final_state,
        use_qk_l2norm_in_kernel,
        use_gate_in_kernel,
        use_beta_sigmoid_in_kernel,
        allow_neg_eigval,
        safe_gate,
        lower_bound,
        state_v_first,
        chunk_size,
        False,
    )
    tensors = (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens)
    return _run("chunk_kda", words, tensors, cu_seqlens_cpu)


def fused_recurrent_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """``fla.ops.kda.fused_recurrent_kda``: arguments and result as those of :func:`chunk_kda`.

    The planner, not the name, chooses the kernels: token by token for decode, in chunks for a
    prefill.  initial_state may have any float type; the final state is float32.
    """
    if kwargs:
        state_v_first = _state_v_first(state_v_first, kwargs)
    if not use_gate_in_kernel:
        A_log = dt_bias = None
    words = (
        scale if scale is None else float(scale),
        output_final_state,
        use_qk_l2norm_in_kernel,
        use_gate_in_kernel,
        use_beta_sigmoid_in_kernel,
        allow_neg_eigval,
        False,
        lower_bound,
        state_v_first,
        64,
        True,
    )
    tensors = (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens)
    return _run("fused_recurrent_kda", words, tensors)
