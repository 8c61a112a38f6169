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
from kda.problem import DType, Gate, Index, Problem, StateLayout
from kda.plan import Plan
from kda.torch._plans import bucket, plan_for

DTYPES = {torch.float32: DType.f32, torch.bfloat16: DType.bf16, torch.float16: DType.f16}
INDICES = {torch.int32: Index.i32, torch.int64: Index.i64}

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


class Tensors(NamedTuple):
    """What a call reads."""

    q: Tensor  # [B, T, H, K]
    k: Tensor  # [B, T, H, K]
    v: Tensor  # [B, T, HV, V]
    g: Tensor  # [B, T, HV, K]
    beta: Tensor  # [B, T, HV]
    A_log: Optional[Tensor]
    dt_bias: Optional[Tensor]
    initial_state: Optional[Tensor]
    cu_seqlens: Optional[Tensor]


def rows_of(t: Tensors) -> dict[str, Tensor]:
    """The five with a row a token."""
    return {"q": t.q, "k": t.k, "v": t.v, "g": t.g, "beta": t.beta}


def signature_of(x: Optional[Tensor]) -> Any:
    """All of a tensor but its contents.  (What is contiguous needs no strides.)"""
    if x is None:
        return None
    return x.dtype, x.shape, x.get_device(), None if x.is_contiguous() else x.stride()


def signature(t: tuple[Any, ...]) -> tuple[Any, ...]:
    """signature_of each of Tensors; written out, as it is a good part of a call's time."""
    q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens = t
    return (
        q.dtype, q.shape, q.get_device(), None if q.is_contiguous() else q.stride(),
        k.dtype, k.shape, k.get_device(), None if k.is_contiguous() else k.stride(),
        v.dtype, v.shape, v.get_device(), None if v.is_contiguous() else v.stride(),
        g.dtype, g.shape, g.get_device(), None if g.is_contiguous() else g.stride(),
        beta.dtype, beta.shape, beta.get_device(), None if beta.is_contiguous() else beta.stride(),
        None if A_log is None else signature_of(A_log),
        None if dt_bias is None else signature_of(dt_bias),
        None if initial_state is None else signature_of(initial_state),
        None if cu_seqlens is None else signature_of(cu_seqlens),
    )  # fmt: skip


class Ready:
    """A call, but for its pointers."""

    __slots__ = (
        "plan", "handle", "run", "index", "head", "tail", "repair",
        "o_like", "state_like", "workspace_like", "workspace_bytes",
    )  # fmt: skip

    plan: Optional[Plan]  # None: there is no sequence, so nothing to run
    handle: int
    run: Callable[..., int]
    index: int  # of the CUDA device
    head: bytes  # of kda_forward, before its pointers ...
    tail: bytes  # ... and after
    repair: Optional[Callable[[Tensors], Tensors]]
    # Templates of one element each: empty_like is the shortest way to torch's allocator.
    o_like: Tensor
    state_like: Optional[Tensor]  # None: not wanted
    workspace_like: Optional[Tensor]
    workspace_bytes: int


def _template(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(1, dtype=dtype, device=device).expand(shape)


def _needs_copy(name: str, x: Tensor) -> bool:
    """Whether the library would refuse its strides: channels apart, or elements read twice."""
    sizes, strides = x.shape, x.stride()
    if name != "beta" and sizes[-1] > 1 and strides[-1] != 1:
        return True
    return any(size > 1 and stride == 0 for size, stride in zip(sizes, strides))


def repaired(t: Tensors, state_type: torch.dtype) -> Tensors:
    """t with copies of what the library would refuse for its strides or its type."""

    def plain(x: Optional[Tensor], dtype: torch.dtype) -> Optional[Tensor]:
        return None if x is None else x.detach().to(dtype).contiguous()

    rows = {n: x.contiguous() if _needs_copy(n, x) else x for n, x in rows_of(t).items()}
    cu = t.cu_seqlens
    if cu is not None:
        cu = plain(cu, cu.dtype if cu.dtype in INDICES else torch.int64)
    return Tensors(
        **rows,
        A_log=plain(t.A_log, torch.float32),
        dt_bias=plain(t.dt_bias, torch.float32),
        initial_state=plain(t.initial_state, state_type),
        cu_seqlens=cu,
    )


def _check(t: Tensors, states: tuple[int, ...]) -> None:
    """What the library cannot see of its pointers."""
    device = t.q.device
    for name, x in t._asdict().items():
        if x is None:
            continue
        if x.device.type != "cuda":
            raise ValueError(f"{name} is on {x.device}; kda runs on CUDA devices")
        if x.device != device:
            raise ValueError(f"{name} is on {x.device} and q on {device}; they must be together")
    for name, x in rows_of(t).items():
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} is {x.dtype}; known: {', '.join(map(str, DTYPES))}")
    for name, x in (("k", t.k), ("v", t.v)):
        if x.dtype != t.q.dtype:
            raise ValueError(f"{name} is {x.dtype} and q is {t.q.dtype}; q, k and v must agree")
    HV, K = t.g.shape[2:]
    for name, x, count in (("A_log", t.A_log, HV), ("dt_bias", t.dt_bias, HV * K)):
        if x is not None and x.numel() != count:
            raise ValueError(f"{name} has {x.numel()} elements; it needs {count} (HV={HV}, K={K})")
    if t.initial_state is not None and tuple(t.initial_state.shape) != states:
        raise ValueError(
            f"initial_state has the shape {list(t.initial_state.shape)}; the states of this call "
            f"are {list(states)}"
        )
    if t.cu_seqlens is not None and (t.cu_seqlens.dim() != 1 or t.cu_seqlens.is_floating_point()):
        raise ValueError(
            f"cu_seqlens is {t.cu_seqlens.dtype} of shape {list(t.cu_seqlens.shape)}; it is whole "
            "numbers [N + 1]"
        )


def _problem_of(rule: Rule, t: Tensors, tokens: int, sequences: int, final_state: bool) -> Problem:
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
    )


def prepare(rule: Rule, given: Tensors, final_state: bool) -> Ready:
    """What calls of this signature need, and their plan.  May compile."""
    B, T, H, K = given.q.shape
    HV, V = given.v.shape[2:]
    N = B if given.cu_seqlens is None else given.cu_seqlens.shape[0] - 1
    states = (N, HV, V, K) if rule.value_first else (N, HV, K, V)
    _check(given, states)
    t = repaired(given, rule.state_type)
    pairs = [(a, b) for a, b in zip(given, t) if a is not None and b is not None]
    changed = any(a.data_ptr() != b.data_ptr() for a, b in pairs)

    r = Ready()
    r.index = t.q.get_device()
    r.repair = functools.partial(repaired, state_type=rule.state_type) if changed else None
    device = t.q.device
    r.o_like = _template(tuple(t.v.shape), t.q.dtype, device)
    r.state_like = _template(states, rule.state_type, device) if final_state else None
    r.plan = None
    if N < 1 or HV < 1:
        return r

    r.plan = plan_for(_problem_of(rule, t, B * T, N, final_state), r.index)
    r.handle = r.plan.handle
    size = r.workspace_bytes = r.plan.workspace_bytes
    r.workspace_like = _template((size,), torch.uint8, device) if size else None
    r.run = _abi.library().kda_plan_run
    raw = _abi.forward()
    raw.tokens, raw.sequences = B * T, N
    for name, x in rows_of(t).items():
        setattr(raw, f"{name}_strides", _abi.Strides(*x.stride()[:3]))
    r.head, r.tail = _abi.around_pointers(raw)
    return r


_empty_like, _zeros_like = torch.empty_like, torch.zeros_like
_contiguous = torch.contiguous_format


def launch(r: Ready, t: tuple[Any, ...], o: Tensor, state: Optional[Tensor]) -> None:
    """Enqueues on torch's current stream; o and state are written."""
    if r.plan is None:
        return
    if r.index != _current_device():
        with torch.cuda.device(r.index):
            return launch(r, t, o, state)
    if r.repair is not None:
        t = r.repair(Tensors(*t))
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
    ) + r.tail  # fmt: skip
    memory = 0
    if r.workspace_like is not None:
        # The allocator reuses it in stream order, so it may go once the kernels are enqueued.
        workspace = _empty_like(r.workspace_like, memory_format=_contiguous)
        memory = workspace.data_ptr()
    code = r.run(r.handle, forward, memory, r.workspace_bytes, _current_stream(r.index))
    if code:
        raise _abi.error_of(code)


def run(r: Ready, t: tuple[Any, ...], zeroed: bool) -> tuple[Tensor, Optional[Tensor]]:
    """Allocates the outputs, o as zeros if asked, and launches."""
    o = (_zeros_like if zeroed else _empty_like)(r.o_like, memory_format=_contiguous)
    state = r.state_like
    if state is not None:
        state = _empty_like(state, memory_format=_contiguous)
    launch(r, t, o, state)
    return o, state
