"""flash-linear-attention's calls (fla.ops.kda): names, arguments, defaults, results and errors.

Forward only: what is not here yet raises NotImplementedError.  Arguments that choose between FLA's
own kernels (safe_gate, chunk_size, disable_recompute) are checked as FLA does and have no other
effect; cu_seqlens_cpu may save zeroing o (chunk_kda).  Unknown keywords are ignored, as by FLA, but
those of FLA's paged form and of vLLM's fork raise TypeError: the call would not do what they mean.
Inputs are read in place by any strides where the last dimension is contiguous and no element stands
for several; others are copied.  cu_seqlens is read on the device: no call waits for the GPU.
"""

from __future__ import annotations

import warnings
from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kda._same import Known, remember
from kda.torch import _call, _ops
from kda.torch._call import Ready
from kda.torch._tensors import Tensors, check_are_tensors, check_cu_seqlens, given
from kda.torch._words import PAGED, Words, check, refuse_elsewhere, rule_of, said
from kda.torch.paged import fused_recurrent_kda_fwd


def _covers_all(cu_seqlens_cpu: Optional[Tensor], q: Tensor) -> bool:
    """Whether the sequences begin with the first token and end with the last."""
    return (
        cu_seqlens_cpu is not None
        and cu_seqlens_cpu.device.type == "cpu"
        and cu_seqlens_cpu.numel() > 1  # else there is no sequence
        and cu_seqlens_cpu[:: cu_seqlens_cpu.numel() - 1].tolist() == [0, *q.shape[1:2]]
    )


_ready: Known[Ready] = {}


def _run(
    name: str,
    words: tuple[Any, ...],
    tensors: tuple[Any, ...],
    cu_seqlens_cpu: Optional[Tensor] = None,
) -> tuple[Tensor, Optional[Tensor]]:
    """words and tensors are Words and Tensors, as plain tuples for speed."""
    if forward_ad._current_level >= 0:
        _ops.refuse_tangents(name, tensors)
    # Rows of no sequence read as zeros, as FLA's callers expect.
    zeroed = tensors[8] is not None
    traced = _ops.is_traced(tensors[0])
    if not traced:
        there, outline = given(tensors)
        key = words, outline
        if zeroed:
            zeroed = not _covers_all(cu_seqlens_cpu, tensors[0])
        for same, ready in _ready.get(key, ()):
            if same(*there):
                return _call.launch(ready, tensors, zeroed=zeroed)
    check_are_tensors(tensors)
    w, t = Words(*words), Tensors(*tensors)
    _ops.refuse_gradients(name, t)
    if traced:
        check(w, t)
        return _ops.forward(rule_of(w), t, w.output_final_state, t.cu_seqlens is not None)
    check(w, t)
    ready = _call.prepare(rule_of(w), t, w.output_final_state)
    remember(_ready, key, there, ready)
    return _call.launch(ready, tensors, zeroed=zeroed)


def _under_its_old_name(given: bool, kwargs: dict[str, Any]) -> bool:
    """state_v_first."""
    if given:
        raise ValueError(
            "state_v_first and transpose_state_layout are one option under two names: pass the "
            "first alone"
        )
    if not torch.compiler.is_compiling():  # a warning breaks torch.compile's graph
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
        scale: multiplies q; None is K ** -0.5.  Under torch.compile this and `lower_bound` must be
            Python's floats: of NumPy's it makes tensors, whose values no graph can branch on.
        initial_state: float32 ``[N, HV, K, V]``, with `state_v_first` ``[N, HV, V, K]``.
        lower_bound: makes the gate ``lower_bound * sigmoid(exp(A_log) * (g + dt_bias))`` instead of
            ``-exp(A_log) * softplus(g + dt_bias)``.
        cu_seqlens: ``[N + 1]`` on the device, int32 or int64, for sequences packed into ``B = 1``.
        cu_seqlens_cpu: the same on the host.  Where it says that the sequences fill all T tokens, o
            is not zeroed first; it must be true then.
        use_graph, max_num_seqs: every call may be captured, and replays with other contents of
            cu_seqlens, so they change nothing; with both, cu_seqlens of another number of sequences
            raises AssertionError.
        A_log, dt_bias (keywords): ``[HV]`` and ``[HV * K]`` of the gate; A_log or `lower_bound` is
            needed with `use_gate_in_kernel`.
        beta_at_most_one (keyword, not FLA's): without `use_beta_sigmoid_in_kernel`, promises that
            beta lies in [0, 1], as sigmoids do, so that no kernel has to check it; a beta outside
            makes NaN.
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
    at_most_one = False
    if kwargs:
        refuse_elsewhere("chunk_kda", kwargs)
        if "transpose_state_layout" in kwargs:
            state_v_first = _under_its_old_name(state_v_first, kwargs)
        chunk_size = kwargs.get("chunk_size", 64)
        at_most_one = bool(kwargs.get("beta_at_most_one", False))
        if use_gate_in_kernel:
            A_log, dt_bias = kwargs.get("A_log"), kwargs.get("dt_bias")
    if use_graph and max_num_seqs is not None and cu_seqlens is not None:
        check_are_tensors((), cu_seqlens=cu_seqlens)
        check_cu_seqlens(cu_seqlens)
        if cu_seqlens.shape[0] - 1 != max_num_seqs:
            raise AssertionError(
                f"cu_seqlens has {cu_seqlens.shape[0] - 1} sequences and max_num_seqs = "
                f"{max_num_seqs}; pad it with empty sequences"
            )
    words = said(
        scale, output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel,
        use_beta_sigmoid_in_kernel, allow_neg_eigval, safe_gate, lower_bound, state_v_first,
        chunk_size, False, at_most_one,
    )  # fmt: skip
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

    The keywords ssm_state_indices, num_accepted_tokens, committed_tokens, inplace_final_state and out
    make it :func:`kda.torch.fused_recurrent_kda_fwd`, on a pool of states.
    """
    at_most_one = False
    if kwargs:
        refuse_elsewhere("fused_recurrent_kda", kwargs, PAGED)
        at_most_one = bool(kwargs.get("beta_at_most_one", False))
        if "transpose_state_layout" in kwargs:
            state_v_first = _under_its_old_name(state_v_first, kwargs)
        # Given as None is not given.
        paged = {name: kwargs[name] for name in PAGED if kwargs.get(name) is not None}
        if paged:
            paged.setdefault("inplace_final_state", "ssm_state_indices" in paged)
            return fused_recurrent_kda_fwd(
                q, k, v, g, beta, A_log, dt_bias, initial_state, scale, output_final_state,
                state_v_first=state_v_first, cu_seqlens=cu_seqlens,
                use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                use_gate_in_kernel=use_gate_in_kernel,
                use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
                allow_neg_eigval=allow_neg_eigval, lower_bound=lower_bound,
                beta_at_most_one=at_most_one, **paged,
            )  # fmt: skip
    if not use_gate_in_kernel:
        A_log = dt_bias = None
    words = said(
        scale, output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel,
        use_beta_sigmoid_in_kernel, allow_neg_eigval, False, lower_bound, state_v_first,
        beta_at_most_one=at_most_one,
    )  # fmt: skip
    tensors = (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens)
    return _run("fused_recurrent_kda", words, tensors)
