"""From torch tensors to a launch: the part that every call goes through.

What a call needs beside its pointers is worked out once for its shapes, strides and types and kept
as a `Ready` under their `signature`.  After that a call looks it up, allocates, packs its pointers
and launches, in about ten microseconds.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from kda import _abi
from kda.problem import Gate, Index, Problem, StateLayout
from kda.plan import Plan
from kda.torch import _pool
from kda.torch._plans import bucket, plan_for
from kda.torch._pool import Slots
from kda.torch._tensors import DTYPES, INDICES, Tensors, check, repaired, rows_of

# Private to torch, but what its own compiled code calls; the public forms cost microseconds.
_current_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
_current_device: Callable[[], int] = torch._C._cuda_getDevice


_LEAST = torch.finfo(torch.float32).tiny


def scale_of(scale: float) -> float:
    """A caller's scale as Problem.scale, whose zero means the default: results still vanish."""
    return float(scale) or _LEAST


def lower_bound_of(lower_bound: float) -> float:
    """A caller's bound as Problem.lower_bound, which is below zero; at zero nothing decays."""
    return float(lower_bound) or -_LEAST


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


class Ready:
    """A call, but for its pointers."""

    __slots__ = (
        "plan", "handle", "run", "index", "head", "tail", "repair", "pool", "repair_slots",
        "o", "state", "workspace_bytes", "o_like", "state_like", "workspace_like",
    )  # fmt: skip

    plan: Optional[Plan]  # None: there is no sequence, so nothing to run
    handle: int
    run: Callable[..., int]
    index: int  # of the CUDA device
    head: bytes  # of kda_forward, before its pointers ...
    tail: bytes  # ... and after
    repair: Optional[Callable[[Tensors], Tensors]]
    pool: Optional[_pool.Frame]  # None: states are not in slots
    repair_slots: bool
    o: Like
    state: Optional[Like]  # None: not wanted
    workspace_bytes: int
    # Templates of one element each: empty_like is the shortest way to torch's allocator.  Only eager
    # calls make them: memory that outlives its call must not come from a compiled graph's pool.
    o_like: Optional[Tensor]
    state_like: Optional[Tensor]
    workspace_like: Optional[Tensor]


class Like(NamedTuple):
    """A tensor to allocate."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def new(self, zeroed: bool = False) -> Tensor:
        make = torch.zeros if zeroed else torch.empty
        return make(self.shape, dtype=self.dtype, device=self.device)

    def template(self) -> Tensor:
        return torch.empty(1, dtype=self.dtype, device=self.device).expand(self.shape)


def with_templates(r: Ready) -> Ready:
    """r, for calls that are not traced."""
    if r.o_like is None:
        r.o_like = r.o.template()
        r.state_like = None if r.state is None else r.state.template()
        if r.workspace_bytes:
            workspace = Like((r.workspace_bytes,), torch.uint8, r.o.device)
            r.workspace_like = workspace.template()
    return r


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
    device = t.q.device
    r.o = Like(tuple(t.v.shape), t.q.dtype, device)
    r.o_like = r.state_like = r.workspace_like = None
    r.workspace_bytes = 0
    wanted = final_state and slots is None
    r.state = Like(states, rule.state_type, device) if wanted else None
    r.plan = None
    if N < 1 or HV < 1:
        return r

    r.plan = plan_for(_problem_of(rule, t, B * T, N, final_state, slots), r.index)
    r.handle = r.plan.handle
    r.workspace_bytes = r.plan.workspace_bytes
    r.run = _abi.library().kda_plan_run
    raw = _abi.forward()
    raw.tokens, raw.sequences = B * T, N
    for name, x in rows_of(t).items():
        setattr(raw, f"{name}_strides", _abi.Strides(*x.stride()[:3]))
    r.head, r.tail = _abi.around_pointers(raw)
    if slots is not None:
        assert t.initial_state is not None
        r.pool = _pool.frame(r.tail, t.initial_state)
    return r


_empty_like, _zeros_like = torch.empty_like, torch.zeros_like
_contiguous = torch.contiguous_format


def _context_was_missing(index: int) -> bool:
    """Whether the last call failed for that; then this thread has a CUDA context now.

    A new thread has none until something of torch's has run in it, and nothing was enqueued.
    """
    if "no CUDA context is current" not in _abi.last_message():
        return False
    torch.zeros(1, device=f"cuda:{index}")
    return True


def launch(
    r: Ready,
    t: tuple[Any, ...],
    o: Tensor,
    state: Optional[Tensor],
    slots: Optional[tuple[Any, ...]] = None,
) -> None:
    """Enqueues on torch's current stream; o and state are written."""
    if r.plan is None:
        return
    if r.index != _current_device():
        with torch.cuda.device(r.index):
            return launch(r, t, o, state, slots)
    if r.repair is not None:
        t = r.repair(Tensors(*t))
    tail = r.tail
    if r.pool is not None:
        assert slots is not None
        tail = _pool.tail(r.pool, _pool.repaired(slots) if r.repair_slots else slots)
    q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens = t
    forward = r.head + _abi.pack_pointers(
        0 if cu_seqlens is None else cu_seqlens.data_ptr(),
        q.data_ptr(),
        k.data_ptr(),
        v.data_ptr(),
        g.data_ptr(),
        beta.data_ptr(),
        0 if A_log is None else A_log.data_ptr(),
        0 if dt_bias is None else dt_bias.data_ptr(),
        0 if initial_state is None else initial_state.data_ptr(),
        o.data_ptr(),
        0 if state is None else state.data_ptr(),
    ) + tail  # fmt: skip
    memory = 0
    if r.workspace_bytes:
        # The allocator reuses it in stream order, so it may go once the kernels are enqueued.
        if r.workspace_like is not None:
            workspace = _empty_like(r.workspace_like, memory_format=_contiguous)
        else:
            workspace = Like((r.workspace_bytes,), torch.uint8, r.o.device).new()
        memory = workspace.data_ptr()
    code = r.run(r.handle, forward, memory, r.workspace_bytes, _current_stream(r.index))
    if code and _context_was_missing(r.index):
        code = r.run(r.handle, forward, memory, r.workspace_bytes, _current_stream(r.index))
    if code:
        raise _abi.error_of(code)


def run(r: Ready, t: tuple[Any, ...], zeroed: bool) -> tuple[Tensor, Optional[Tensor]]:
    """Allocates the outputs, o as zeros if asked, and launches."""
    if r.o_like is None:
        o, state = r.o.new(zeroed), None if r.state is None else r.state.new()
    else:
        o = (_zeros_like if zeroed else _empty_like)(r.o_like, memory_format=_contiguous)
        state = r.state_like
        if state is not None:
            state = _empty_like(state, memory_format=_contiguous)
    launch(r, t, o, state)
    return o, state
