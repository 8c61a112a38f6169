"""From torch tensors to a launch: the part that every call goes through.

What a call needs beside its pointers is worked out once for its shapes, strides and types and kept
as a `Ready`.  After that a call finds it by its words, a guard says that its tensors are of that kind
(kda._same), and it allocates, packs its pointers and launches.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from kda import _abi
from kda._run import context_was_missing
from kda.problem import Gate, Index, Problem, StateLayout
from kda.plan import Plan
from kda.tensors import null_of
from kda.torch import _pool
from kda.torch._plans import bucket, plan_for
from kda.torch._pool import Slots
from kda.torch._tensors import DTYPES, INDICES, Tensors, check, repaired, rows_of


def _stream_by_name(index: int) -> int:
    return torch.cuda.current_stream(index).cuda_stream


# Private to torch, but what its own compiled code calls; the public forms cost microseconds.  A
# torch without CUDA has these alone, and they say what is missing.
_current_stream: Callable[[int], int] = getattr(
    torch._C, "_cuda_getCurrentRawStream", _stream_by_name
)
_current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


def _empty_by_name(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


# On the current device, whose torch is running: a guard has seen CUDA tensors.
_empty: Callable[..., Tensor] = getattr(
    torch._C._dynamo.guards, "_empty_strided_cuda", _empty_by_name
)


def _tell_by_name(written: tuple[Tensor, ...]) -> None:
    for x in written:
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)


def _told_by() -> Callable[[tuple[Tensor, ...]], None]:
    """torch's own part of that call, 0.1 us instead of 0.3, where it is known to take several tensors
    and inference mode's among them.
    """
    tell: Callable[[tuple[Tensor, ...]], None] = torch._C._increment_version
    with torch.inference_mode():
        x = torch.empty(0, device="cpu")
    with torch.inference_mode(False):
        y = torch.empty(0, device="cpu")
        tell((x, y))
        if y._version != 1:
            raise RuntimeError("another call by that name")
    return tell


# Tells autograd that these were written, which their pointers do not: what it saved of them before
# is then no more taken for what it was.
tell_written: Callable[[tuple[Tensor, ...]], None] = _tell_by_name
try:
    tell_written = _told_by()
except Exception:  # private to torch: it may change as it likes
    pass


_LEAST = torch.finfo(torch.float32).tiny


def scale_of(scale: float) -> float:
    """A caller's scale as Problem.scale, whose zero means the default: results still vanish.

    What 32 bits would make zero is one too.
    """
    return _LEAST if abs(scale) < _LEAST else float(scale)


def lower_bound_of(lower_bound: float) -> float:
    """A caller's bound as Problem.lower_bound, which is below zero; at zero nothing decays."""
    return -_LEAST if abs(lower_bound) < _LEAST else float(lower_bound)


class Rule(NamedTuple):
    """What a call computes, beside its tensors."""

    scale: float  # 0: 1 / sqrt(K)
    gate: Gate
    lower_bound: float  # of Gate.bounded
    beta_is_logit: bool
    allow_neg_eigval: bool
    l2norm_qk: bool
    value_first: bool  # the state's layout
    state_type: torch.dtype
    paging: _pool.Paging = _pool.Paging()
    beta_at_most_one: bool = False


# A contiguous tensor to allocate on the current device, as _empty(*like): its shape, strides and type.
Like = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]


def _like(shape: tuple[int, ...], dtype: torch.dtype) -> Like:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(shape), tuple(reversed(strides)), dtype


class Ready:
    """A call, but for its pointers."""

    __slots__ = (
        "plan", "handle", "run", "index", "form", "pool", "repair", "repair_slots", "o", "state",
        "workspace", "workspace_bytes", "all_padding",
    )  # fmt: skip

    plan: Optional[Plan]  # None: there is no sequence or no slot, so nothing to run
    handle: ctypes.c_void_p
    run: Callable[..., int]
    index: int  # of the CUDA device
    form: _abi.Form
    pool: Optional[_abi.PooledTail]  # None: states are not in slots
    repair: Optional[Callable[[Tensors], Tensors]]
    repair_slots: bool
    o: Like
    state: Optional[Like]  # None: not wanted
    workspace: Optional[Like]  # None: not needed
    workspace_bytes: ctypes.c_size_t
    all_padding: bool  # and no kernel to make o zero


def _problem_of(
    rule: Rule, t: Tensors, tokens: int, sequences: int, final_state: bool, slots: Optional[Slots]
) -> Problem:
    H, K = t.q.shape[2:]
    HV, V = t.v.shape[2:]
    return Problem(
        heads=H,
        value_heads=HV,
        key_dim=K,
        value_dim=V,
        max_tokens=bucket(tokens),
        max_sequences=bucket(sequences),
        varlen=t.cu_seqlens is not None,
        cu_seqlens_type=Index.i64 if t.cu_seqlens is None else INDICES[t.cu_seqlens.dtype],
        qkv_type=DTYPES[t.q.dtype],
        gate_type=DTYPES[t.g.dtype],
        beta_type=DTYPES[t.beta.dtype],
        state_type=DTYPES[rule.state_type],
        gate=rule.gate,
        lower_bound=rule.lower_bound,
        beta_is_logit=rule.beta_is_logit,
        allow_neg_eigval=rule.allow_neg_eigval,
        beta_at_most_one=rule.beta_at_most_one,
        l2norm_qk=rule.l2norm_qk,
        scale=rule.scale,
        state_layout=StateLayout.value_first if rule.value_first else StateLayout.key_first,
        initial_state=t.initial_state is not None,
        final_state=final_state,
        **({} if slots is None else _pool.problem_words(rule.paging, slots)),
    )


def prepare(rule: Rule, given: Tensors, final_state: bool, slots: Optional[Slots] = None) -> Ready:
    """What calls of this signature need, and their plan.  May compile.

    With slots, given.initial_state is the pool they are of, which the call writes.
    """
    B, T, H, K = given.q.shape
    HV, V = given.v.shape[2:]
    N = B if given.cu_seqlens is None else given.cu_seqlens.shape[0] - 1
    states = (N, HV, V, K) if rule.value_first else (N, HV, K, V)
    check(given, states, slots is not None)
    state_type = None if slots is not None else rule.state_type
    t = repaired(given, state_type)
    pairs = [(a, b) for a, b in zip(given, t) if a is not None and b is not None]
    changed = any(a.data_ptr() != b.data_ptr() for a, b in pairs)

    r = Ready()
    r.index = t.q.get_device()
    r.repair = functools.partial(repaired, state_type=state_type) if changed else None
    r.pool, r.repair_slots = None, False
    if slots is not None:
        assert t.initial_state is not None
        _pool.check(rule.paging, t.initial_state, slots, states)
        r.repair_slots = _pool.need_copies(slots)
    r.o = _like(t.v.shape, t.q.dtype)
    wanted = final_state and slots is None
    r.state = _like(states, rule.state_type) if wanted else None
    r.plan = None
    no_slot = slots is not None and t.initial_state is not None and t.initial_state.shape[0] == 0
    r.all_padding = no_slot and rule.paging.zero_padding
    if N < 1 or HV < 1 or no_slot:
        return r

    r.plan = plan_for(_problem_of(rule, t, B * T, N, final_state, slots), r.index)
    size = r.plan.workspace_bytes
    r.workspace = _like((size,), torch.uint8) if size else None
    # As ctypes wants them, so that no call converts them.
    r.handle, r.workspace_bytes = ctypes.c_void_p(r.plan.handle), ctypes.c_size_t(size)
    r.run = _abi.library().kda_plan_run
    raw = _abi.forward()
    raw.tokens, raw.sequences = B * T, N
    for name, x in rows_of(t).items():
        setattr(raw, f"{name}_strides", _abi.Strides(*x.stride()[:3]))
    if slots is not None:
        assert t.initial_state is not None
        _pool.fill(raw.pool, t.initial_state, _pool.repaired(slots))
    r.form = _abi.form(raw)
    r.pool = None if slots is None else _abi.pooled_tail(r.form)
    return r


def launch(
    r: Ready,
    t: tuple[Any, ...],
    o: Optional[Tensor] = None,
    state: Optional[Tensor] = None,
    slots: Optional[tuple[Any, ...]] = None,
    zeroed: bool = False,
) -> tuple[Tensor, Optional[Tensor]]:
    """Enqueues on torch's current stream what writes o and state, and returns them.

    What is not given of them is allocated, o as zeros if asked.
    """
    if r.index != _current_device():
        with torch.cuda.device(r.index):
            return launch(r, t, o, state, slots, zeroed)
    if o is None:
        o = _empty(*r.o)
        if zeroed:
            o.zero_()
    if state is None and r.state is not None:
        state = _empty(*r.state)
    if r.plan is None:
        if r.all_padding:
            o.zero_()
        return o, state
    if r.repair is not None:
        t = r.repair(Tensors(*t))
    pack, head, tail = r.form
    if r.pool is not None:
        assert slots is not None
        if r.repair_slots:
            slots = _pool.repaired(slots)
        tail = _pool.tail(r.pool, slots)
    q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens = t
    forward = pack(
        head,
        0 if cu_seqlens is None else cu_seqlens.data_ptr(),
        q.data_ptr(),
        k.data_ptr(),
        v.data_ptr(),
        g.data_ptr(),
        beta.data_ptr(),
        0 if A_log is None else A_log.data_ptr() or null_of("A_log", A_log),
        0 if dt_bias is None else dt_bias.data_ptr() or null_of("dt_bias", dt_bias),
        0 if initial_state is None else initial_state.data_ptr(),
        o.data_ptr(),
        0 if state is None else state.data_ptr(),
        tail,
    )
    memory = 0
    if r.workspace is not None:
        # The allocator reuses it in stream order, so it may go once the kernels are enqueued.
        workspace = _empty(*r.workspace)
        memory = workspace.data_ptr()
    code = r.run(r.handle, forward, memory, r.workspace_bytes, _current_stream(r.index))
    if code and context_was_missing(r.index):
        code = r.run(r.handle, forward, memory, r.workspace_bytes, _current_stream(r.index))
    if code:
        raise _abi.error_of(code)
    return o, state
