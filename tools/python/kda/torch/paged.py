"""States in slots of a pool, as an inference engine keeps them.

:func:`paged_kda` is prefill and decode on a pool, :func:`fused_recurrent_kda_fwd` FLA's form of it.
Indices are read on the device alone: a CUDA graph replays with other ones.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kda._same import Known, remember
from kda.torch import _call, _ops
from kda.torch._call import Ready
from kda.torch._pool import Paging, Slots, check_shape, check_slots, need_one_slot
from kda.torch._tensors import (
    Tensors,
    check_are_tensors,
    check_cu_seqlens,
    check_out,
    check_written,
    given,
)
from kda.torch._words import Words, check, check_dimensions, refuse_elsewhere, rule_of, said

_ready: Known[Ready] = {}

# What callers call the fields of Slots.
_SLOT_NAMES = (
    "ssm_state_indices", "initial_state_indices", "num_accepted_tokens", "checkpoint_indices",
    "committed_tokens",
)  # fmt: skip


def _run(
    words: tuple[Any, ...],
    tensors: tuple[Any, ...],
    slots: Optional[tuple[Any, ...]],
    paging: tuple[Any, ...],
    out: Optional[Tensor],
    zeroed: bool,
) -> Tensor:
    """The states are written in place, and o, which is out or else new, is returned.

    words, tensors, slots and paging are the tuples of those names.
    """
    state = tensors[7]
    if forward_ad._current_level >= 0:
        _ops.refuse_tangents("fused_recurrent_kda_fwd", tensors, out=out)
    traced = _ops.is_traced(tensors[0])
    if not traced:
        there, outline = given(tensors)
        named = None
        if slots is not None:
            named = tuple(x is None for x in slots)
            there += [x for x in slots if x is not None]
        if out is not None:
            there.append(out)
        key = words, paging, outline, named, out is None
        for same, ready in _ready.get(key, ()):
            if same(*there):
                o = _call.launch(ready, tensors, out, state, slots, zeroed)[0]
                _call.tell_written((state,) if out is None else (state, out))
                return o
    if slots is not None:
        check_are_tensors((), **{"the state pool": state}, **dict(zip(_SLOT_NAMES, slots)))
    check_are_tensors(tensors, out=out)
    w, t = Words(*words), Tensors(*tensors)
    if slots is None:
        _check_in_place(state)
    o = _new_output(t.v, zeroed) if out is None else out
    _ops.refuse_gradients("fused_recurrent_kda_fwd", t, out=out)
    check(w, t, slots is not None)
    check_out(o, t)
    rule = rule_of(w, state.dtype, Paging(*paging))
    if traced:
        if slots is None:
            _ops.forward_out(rule, t, o, state)
        else:
            _ops.paged(rule, t, Slots(*slots), o)
        return o
    ready = _call.prepare(rule, t, True, None if slots is None else Slots(*slots))
    remember(_ready, key, there, ready)
    _call.launch(ready, tensors, o, state, slots)
    _call.tell_written((state, o))
    return o


def _check_in_place(state: Tensor) -> None:
    if state.dtype not in (torch.float32, torch.bfloat16):
        raise NotImplementedError(
            f"initial_state is {state.dtype}; kda keeps states in float32 or bfloat16"
        )
    if not state.is_contiguous():
        raise ValueError(
            f"initial_state has strides {list(state.stride())}; to be overwritten in place without "
            "ssm_state_indices it must be contiguous"
        )
    check_written("initial_state", state)


def paged_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state_pool: Tensor,
    ssm_state_indices: Tensor,
    *,
    initial_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    checkpoint_indices: Tensor | None = None,
    checkpoint_tokens: int = 0,
    committed_tokens: Tensor | None = None,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    beta_at_most_one: bool = False,
    lower_bound: float | None = None,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    mixed_lengths: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """KDA of N sequences whose states live in a pool; returns o and writes the states in place.

    Other arguments are those of :func:`kda.torch.chunk_kda`.

    Args:
        state_pool: float32 or bfloat16 ``[slots, HV, K, V]``, with `state_v_first`
            ``[slots, HV, V, K]``; a slot is contiguous, the distance between slots is free.
        ssm_state_indices: int32 or int64 ``[N]``, each sequence's own slot: where it starts and
            where its final state goes.  Negative or past the pool: padding, whose states are
            neither read nor written and whose outputs are zero (untouched in a given `out`).  With
            more than one column, ``[N, columns]``, the state after token t goes to the slot in
            ``[n, t]`` instead.  Rows past N are not read.
        initial_state_indices: ``[N]``, where sequences start instead; negative: from zero.
        num_accepted_tokens: ``[N]``, how many tokens of the call before were accepted; needs
            indices of two dimensions.  Sequence n starts from the slot
            ``ssm_state_indices[n, accepted - 1]``; at zero or less as if this were not given.  With
            one column that is always its own slot, so not with initial_state_indices then.
        checkpoint_indices: ``[N, columns]``; the state after ``(j + 1) * checkpoint_tokens`` tokens
            of sequence n goes to the slot in ``[n, j]``, nowhere if that is negative or past the
            pool.
        committed_tokens: ``[N]``, int32 or int64: the final state of sequence n is the one after so
            many of its first tokens, clamped to 0 (the state it starts from) and its length; later
            tokens have outputs and change no state.  A call so begins with the tokens accepted of
            the call before and goes on with new drafts, and keeps one state a sequence.  Not with
            more than one column of slots or with checkpoints.
        mixed_lengths: calls pack sequences of a few tokens beside long ones.
        beta_at_most_one: without `use_beta_sigmoid_in_kernel`, promises that beta lies in [0, 1],
            as sigmoids do.  Prefills then need neither check it nor copy the slots that they begin
            from in case it does not hold.  A beta outside makes NaN.
        out: takes o, ``[B, T, HV, V]``, contiguous.
    """
    words = said(
        scale, True, use_qk_l2norm_in_kernel, use_gate_in_kernel,
        use_beta_sigmoid_in_kernel, allow_neg_eigval, False, lower_bound, state_v_first,
        beta_at_most_one=beta_at_most_one,
    )  # fmt: skip
    if state_pool is None:
        raise ValueError(
            "state_pool is None; states are read and written in a pool of [slots, HV, K, V], as "
            "torch.zeros makes one; fused_recurrent_kda does without"
        )
    if ssm_state_indices is None:
        raise ValueError(
            "ssm_state_indices is None; each sequence has a slot of the pool, as torch.arange(N) "
            "gives one to each"
        )
    if not use_gate_in_kernel:
        A_log = dt_bias = None
    tensors = (q, k, v, g, beta, A_log, dt_bias, state_pool, cu_seqlens)
    slots = (
        ssm_state_indices, initial_state_indices, num_accepted_tokens, checkpoint_indices,
        committed_tokens,
    )  # fmt: skip
    return _run_on_pool(words, tensors, slots, checkpoint_tokens, mixed_lengths, out)


def _run_on_pool(
    words: tuple[Any, ...],
    tensors: tuple[Any, ...],
    slots: tuple[Any, ...],
    checkpoint_tokens: int,
    mixed_lengths: bool,
    out: Optional[Tensor],
) -> Tensor:
    # Tokens past the last packed sequence are no sequence's padding.
    packed = tensors[8] is not None
    paging = (checkpoint_tokens, out is None and not packed, mixed_lengths)
    return _run(words, tensors, slots, paging, out, packed)


def _new_output(v: Tensor, zeroed: bool) -> Tensor:
    make = torch.zeros_like if zeroed else torch.empty_like
    return make(v, memory_format=torch.contiguous_format)


def _gathered(
    pool: Tensor | None, shape: list[int], indices: Tensor, accepted: Tensor | None, traced: bool
) -> Any:
    """The states that sequences start from, float32 and apart from the pool, and their slots."""
    if pool is not None:
        check_shape(pool, tuple(shape))
    device = indices.device if pool is None else pool.device
    check_slots(Slots(indices, None, accepted, None), device, shape[0], traced)
    indices = indices[: shape[0]]
    first = indices if indices.dim() == 1 else indices[:, 0]
    if accepted is not None:
        column = (accepted.long() - 1).clamp(0, indices.shape[1] - 1)
        first = indices.gather(1, column[:, None]).squeeze(1)
    valid = first >= 0
    if pool is not None:
        valid = valid & (first < pool.shape[0])
    rows = torch.where(valid, torch.arange(first.shape[0], device=first.device), -1)
    if pool is None or pool.shape[0] == 0:
        return torch.zeros(shape, dtype=torch.float32, device=device), rows
    chosen = pool[first.clamp(0, pool.shape[0] - 1).long()].float().contiguous()
    return chosen.masked_fill_(~valid[:, None, None, None], 0), rows


def fused_recurrent_kda_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_state: Tensor | None = None,
    scale: float | None = None,
    output_final_state: bool = False,
    inplace_final_state: bool = True,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    ssm_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    out: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """``fla.ops.kda.fused_recurrent.fused_recurrent_kda_fwd``: returns ``(o, final_state)``.

    With `ssm_state_indices`, initial_state is a pool, as in :func:`paged_kda`.  Unlike FLA this
    never reads or writes outside of what it is given: a negative slot is padding, without accepted
    tokens a sequence starts from its first slot, and one slot for several tokens takes the last
    state.  With ``inplace_final_state=False`` the pool stays as it is; final_state is then a new
    float32 ``[N, ...]``, or None without `output_final_state`.  The keywords committed_tokens and
    beta_at_most_one, which FLA does not have, are those of :func:`paged_kda`.
    """
    if kwargs:
        refuse_elsewhere("fused_recurrent_kda_fwd", kwargs, ("committed_tokens",))
    committed_tokens: Tensor | None = kwargs.get("committed_tokens")
    beta_at_most_one = bool(kwargs.get("beta_at_most_one", False))
    if committed_tokens is not None and ssm_state_indices is None:
        raise ValueError(
            "committed_tokens is given without ssm_state_indices; name the states' slots, "
            "torch.arange(N) for a state each"
        )
    if num_accepted_tokens is not None and ssm_state_indices is None:
        raise ValueError(
            "num_accepted_tokens is given without ssm_state_indices; name the slots that the states "
            "after drafted tokens went to"
        )
    if inplace_final_state:
        if initial_state is None:
            raise AssertionError("inplace_final_state=True needs initial_state")
    elif ssm_state_indices is None and out is None:
        from kda.torch.fla import fused_recurrent_kda

        return fused_recurrent_kda(
            q, k, v, g, beta, A_log, dt_bias, scale, initial_state, output_final_state,
            use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel,
            allow_neg_eigval, lower_bound, state_v_first, cu_seqlens,
            beta_at_most_one=beta_at_most_one,
        )  # fmt: skip
    if not use_gate_in_kernel:
        A_log = dt_bias = None
    state = initial_state
    if not inplace_final_state:
        named = (ssm_state_indices, None, num_accepted_tokens, None, committed_tokens)
        given = (q, k, v, g, beta, A_log, dt_bias, state, cu_seqlens)
        check_are_tensors(given, **dict(zip(_SLOT_NAMES, named)))
        check_dimensions(q, v)
        if cu_seqlens is not None:
            check_cu_seqlens(cu_seqlens)
        N = q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
        K, (HV, V) = q.shape[3], v.shape[2:]
        shape = [N, HV, V, K] if state_v_first else [N, HV, K, V]
        if ssm_state_indices is not None:
            if committed_tokens is not None:
                need_one_slot(ssm_state_indices)
            traced = _ops.is_traced(q)
            state, rows = _gathered(state, shape, ssm_state_indices, num_accepted_tokens, traced)
            ssm_state_indices, num_accepted_tokens = rows, None
        elif state is None:
            state = torch.zeros(shape, dtype=torch.float32, device=q.device)
        else:
            state = state.float().clone(memory_format=torch.contiguous_format)
    words = said(
        scale, True, use_qk_l2norm_in_kernel, use_gate_in_kernel,
        use_beta_sigmoid_in_kernel, allow_neg_eigval, False, lower_bound, state_v_first,
        beta_at_most_one=beta_at_most_one,
    )  # fmt: skip
    tensors = (q, k, v, g, beta, A_log, dt_bias, state, cu_seqlens)
    if ssm_state_indices is not None:
        slots = (ssm_state_indices, None, num_accepted_tokens, None, committed_tokens)
        out = _run_on_pool(words, tensors, slots, 0, False, out)
    else:
        out = _run(words, tensors, None, (0, False, False), out, cu_seqlens is not None)
    return out, state if inplace_final_state or output_final_state else None
