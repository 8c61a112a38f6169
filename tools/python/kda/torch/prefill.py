"""torch.ops.kda_prefill.forward, the operator of the first CUDA kda_prefill.

    o, w, u = torch.ops.kda_prefill.forward(q, k, v, g, beta, chunk_size, w=None, u=None, o=None)

float32 and contiguous: q, k, g ``[B, H, T, K]``, v, o ``[B, H, T, V]``, beta ``[B, H, T]``,
w ``[B, H, Nc, C, K]``, u ``[B, H, Nc, C, V]`` with C = chunk_size and Nc = ceil(T / C).  q and k
are normalised here, the scale is K ** -0.5, beta is taken as given, the decay of a token is
sigmoid(g), and the state starts at zero.  w, u and o are written where given, else allocated.  Rows
of w and u past T are zero.  The first call of a size compiles, which takes seconds; it, too, may be
captured.

Raises ValueError where tensors or sizes do not fit, NotImplementedError where nothing serves them,
and RuntimeError, whose text has the cudaError_t, where NVRTC or the driver fails.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kda import _abi, _log
from kda._run import context_was_missing
from kda.torch._call import _current_stream, tell_written
from kda.torch._ops import refuse_gradients, refuse_tangents

_library = torch.library.Library("kda_prefill", "FRAGMENT")  # another extension may own the name


def _check(name: str, x: Tensor, shape: tuple[int, ...], device: torch.device) -> None:
    if tuple(x.shape) != shape:
        raise ValueError(f"{name} is {list(x.shape)}; it must be {list(shape)}")
    if x.dtype != torch.float32:
        raise ValueError(f"{name} is {x.dtype}; kda_prefill is float32")
    if not x.is_contiguous():
        raise ValueError(f"{name} has strides {list(x.stride())}; it must be contiguous")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device} and q on {device}; they must be together")


def _refuse_derivatives(reads: tuple[Tensor, ...], **written: Optional[Tensor]) -> None:
    refuse_gradients("kda_prefill", reads, **written)
    if forward_ad._current_level >= 0:
        refuse_tangents("kda_prefill", reads, **written)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int,
    w: Optional[Tensor] = None,
    u: Optional[Tensor] = None,
    o: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    _refuse_derivatives((q, k, v, g, beta), w=w, u=u, o=o)
    if q.dim() != 4 or v.dim() != 4:
        raise ValueError(f"q is {list(q.shape)} and v {list(v.shape)}; both have four dimensions")
    if chunk_size < 1:
        raise ValueError(f"chunk_size = {chunk_size}; it must be positive")
    B, H, T, K = q.shape
    V = v.shape[3]
    chunks = (T + chunk_size - 1) // chunk_size
    shapes = {
        "k": (k, (B, H, T, K)),
        "v": (v, (B, H, T, V)),
        "g": (g, (B, H, T, K)),
        "beta": (beta, (B, H, T)),
        "w": (w, (B, H, chunks, chunk_size, K)),
        "u": (u, (B, H, chunks, chunk_size, V)),
        "o": (o, (B, H, T, V)),
    }
    _check("q", q, (B, H, T, K), q.device)
    for name, (x, shape) in shapes.items():
        if x is not None:
            _check(name, x, shape, q.device)
    w = q.new_empty(shapes["w"][1]) if w is None else w
    u = q.new_empty(shapes["u"][1]) if u is None else u
    o = q.new_empty(shapes["o"][1]) if o is None else o
    torch.ops.kda_prefill.fill(q, k, v, g, beta, chunk_size, w, u, o)
    return o, w, u


def _fill(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int,
    w: Tensor,
    u: Tensor,
    o: Tensor,
) -> None:
    _refuse_derivatives((q, k, v, g, beta), w=w, u=u, o=o)  # compiled code comes here alone
    B, H, T, K = q.shape
    io = _abi.PrefillIO(
        *(x.data_ptr() for x in (q, k, v, g, beta, w, u, o)),
        B,
        H,
        T,
        K,
        v.shape[3],
        chunk_size,
        0,  # derive the number of chunks
    )
    index = q.get_device()
    with torch.cuda.device(index):
        code = _abi.library().kda_prefill_f32(io, _current_stream(index))
        if code and context_was_missing(index):
            code = _abi.library().kda_prefill_f32(io, _current_stream(index))
    if code:
        kind = {1: ValueError, 801: NotImplementedError}.get(code, RuntimeError)
        raise kind(f"{_abi.last_message()} (cudaError_t {code})")
    tell_written((w, u, o))


def _refuse_to_fill(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, chunk_size: int, *outputs: Tensor
) -> None:
    _refuse_derivatives((q, k, v, g, beta), **dict(zip("wuo", outputs)))
    raise ValueError(f"q is on {q.device}; kda runs on CUDA devices")


def _define() -> None:
    if hasattr(torch.ops.kda_prefill, "forward"):
        _log.warn(
            "torch.ops.kda_prefill.forward is another extension's, and stays so; for kda's import "
            "kda.torch without that extension"
        )
        return
    _library.define(
        "forward(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, int chunk_size, "
        "Tensor? w=None, Tensor? u=None, Tensor? o=None) -> (Tensor, Tensor, Tensor)"
    )
    _library.define(
        "fill(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, int chunk_size, "
        "Tensor(a!) w, Tensor(b!) u, Tensor(c!) o) -> ()",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    # Composite: torch.compile sees through it to `fill`, whose writes it understands.
    _library.impl("forward", _forward, "CompositeImplicitAutograd")
    _library.impl("fill", _fill, "CUDA")
    _library.impl("fill", _refuse_to_fill, "CPU")
    torch.library.register_fake("kda_prefill::fill", lambda *arguments: None, lib=_library)


_define()
