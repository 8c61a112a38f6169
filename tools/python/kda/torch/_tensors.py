"""The tensors of a call: what tells one call's from another's, what is refused, what is copied."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from kda.problem import DType, Index
from kda.tensors import check_memory, check_sign

DTYPES = {torch.float32: DType.f32, torch.bfloat16: DType.bf16, torch.float16: DType.f16}
INDICES = {torch.int32: Index.i32, torch.int64: Index.i64}


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


def given(t: tuple[Any, ...]) -> tuple[list[Tensor], tuple[Any, ...]]:
    """Those of Tensors that are there; and for a key of the call which these are, with the sizes that
    change most from call to call.
    """
    q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens = t
    there, packed = [q, k, v, g, beta], None
    if A_log is not None:
        there.append(A_log)
    if dt_bias is not None:
        there.append(dt_bias)
    if initial_state is not None:
        there.append(initial_state)
    if cu_seqlens is not None:
        there.append(cu_seqlens)
        try:
            packed = cu_seqlens.shape
        except AttributeError:  # a list
            check_are_tensors(t)
            raise
    return there, (q.shape, packed, A_log is None, dt_bias is None, initial_state is None)


_NEEDED = ("q", "k", "v", "g", "beta")


def check_are_tensors(t: tuple[Any, ...], **more: Any) -> None:
    """Of the tuple of Tensors, and of those named, which may be None."""
    for name, x in (*zip(Tensors._fields, t), *more.items()):
        if x is None and name in _NEEDED:
            raise ValueError(f"{name} is None; pass a torch.Tensor")
        if x is not None and not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}; pass a torch.Tensor")


def rows_of(t: Tensors) -> dict[str, Tensor]:
    """The five with a row a token."""
    return {"q": t.q, "k": t.k, "v": t.v, "g": t.g, "beta": t.beta}


def _needs_copy(name: str, x: Tensor) -> bool:
    """Whether the library would refuse its strides: channels apart, or elements read twice."""
    sizes, strides = x.shape, x.stride()
    if name != "beta" and sizes[-1] > 1 and strides[-1] != 1:
        return True
    return any(size > 1 and stride == 0 for size, stride in zip(sizes, strides))


def repaired(t: Tensors, state_type: Optional[torch.dtype]) -> Tensors:
    """t with copies of what the library would refuse for its strides or its type.

    Without a state_type initial_state is a pool, which is written and never copied.
    """

    def plain(x: Optional[Tensor], dtype: torch.dtype) -> Optional[Tensor]:
        return None if x is None else x.detach().resolve_neg().to(dtype).contiguous()

    # Of a tensor that is negated lazily the memory holds the other sign.
    rows = {n: x.resolve_neg() for n, x in rows_of(t).items()}
    rows = {n: x.contiguous() if _needs_copy(n, x) else x for n, x in rows.items()}
    cu = t.cu_seqlens
    if cu is not None:
        cu = plain(cu, cu.dtype if cu.dtype in INDICES else torch.int64)
    return Tensors(
        **rows,
        A_log=plain(t.A_log, torch.float32),
        dt_bias=plain(t.dt_bias, torch.float32),
        initial_state=plain(t.initial_state, state_type) if state_type else t.initial_state,
        cu_seqlens=cu,
    )


def check_written(name: str, x: Tensor) -> None:
    """Of what is written, so that no copy would do."""
    if not torch.compiler.is_compiling():  # then torch sees to the sign of what operators write
        check_sign(name, x)


def check_out(out: Tensor, t: Tensors) -> None:
    """Of the tensor that takes o."""
    check_written("out", out)
    if out.shape != t.v.shape:
        raise AssertionError(f"out is {list(out.shape)}; it must be {list(t.v.shape)}")
    if not out.is_contiguous() or out.dtype != t.q.dtype or out.device != t.q.device:
        raise ValueError(
            f"out is {out.dtype} on {out.device} with strides {list(out.stride())}; it must be "
            f"contiguous and, as q, {t.q.dtype} on {t.q.device}"
        )


def check_final_state(state: Tensor, shape: tuple[int, ...], t: Tensors) -> None:
    """Of the tensor that takes the states."""
    fits = tuple(state.shape) == shape and state.device == t.q.device
    if not fits or not state.is_contiguous():
        raise ValueError(
            f"final_state is {list(state.shape)} on {state.device} with strides "
            f"{list(state.stride())}; it must be contiguous, {list(shape)} and, as q, on {t.q.device}"
        )


def check_cu_seqlens(cu_seqlens: Tensor) -> None:
    if cu_seqlens.dim() != 1 or cu_seqlens.shape[0] < 1 or cu_seqlens.is_floating_point():
        raise ValueError(
            f"cu_seqlens is {cu_seqlens.dtype} of shape {list(cu_seqlens.shape)}; it is whole "
            "numbers [N + 1]"
        )


def check_types(t: Tensors) -> None:
    """What tracing sees too, so that a compiled call is refused where an eager one is."""
    for name, x in rows_of(t).items():
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} is {x.dtype}; known: {', '.join(map(str, DTYPES))}")
    for name, x in (("k", t.k), ("v", t.v)):
        if x.dtype != t.q.dtype:
            raise NotImplementedError(
                f"{name} is {x.dtype} and q is {t.q.dtype}; kda has no kernels for mixed types of q, k "
                "and v: convert them to one"
            )


def check(t: Tensors, states: tuple[int, ...], pooled: bool) -> None:
    """What the library cannot see of its pointers."""
    device = t.q.device
    for name, x in t._asdict().items():
        if x is None:
            continue
        if x.device.type != "cuda":
            raise ValueError(f"{name} is on {x.device}; kda runs on CUDA devices")
        if x.device != device:
            raise ValueError(f"{name} is on {x.device} and q on {device}; they must be together")
        check_memory(name, x)
    check_types(t)
    HV, K = t.g.shape[2:]
    for name, x, count in (("A_log", t.A_log, HV), ("dt_bias", t.dt_bias, HV * K)):
        if x is not None and x.numel() != count:
            raise ValueError(f"{name} has {x.numel()} elements; it needs {count} (HV={HV}, K={K})")
    if not pooled and t.initial_state is not None and tuple(t.initial_state.shape) != states:
        raise ValueError(
            f"initial_state has the shape {list(t.initial_state.shape)}; the states of this call "
            f"are {list(states)}"
        )
    if t.cu_seqlens is not None:
        check_cu_seqlens(t.cu_seqlens)
