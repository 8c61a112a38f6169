"""A run's arguments as kda_forward: which tensor has which shape, type and strides."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import sys
from typing import Any, Optional, Sequence

from kda import _abi, errors
from kda._fields import whole
from kda._streams import known_as
from kda.problem import Problem, StateLayout
from kda.tensors import View, ordinal_of, stream_named, stream_of_interface, view

__all__ = [
    "StatePool",
    "context_was_missing",
    "device_apart",
    "first_stream",
    "forward_of",
    "stream_of",
    "torch_device",
    "workspace_of",
]


@dataclasses.dataclass(frozen=True)
class StatePool:
    """The slots of a pool that a run reads and writes; see include/kda/state_pool.hpp.

    The pool is the run's ``initial_state`` and ``final_state``: [slots, HV, V, K], or
    [slots, HV, K, V], by Problem.state_layout.  One of them must be a tensor, as an address has no
    number of slots.
    """

    indices: Any
    """[N] or [N, columns], each sequence's slots; of Problem.slot_index_type, as all below."""
    initial_indices: Any = None
    """[N]: where a sequence starts instead of from its own slot; negative: from zero."""
    num_accepted_tokens: Any = None
    """[N]; Problem.draft_states only: start from the state after that many tokens of the run
    before."""
    checkpoints: Any = None
    """[N, columns]: the slot for the state after each multiple of Problem.checkpoint_tokens."""


def _want(name: str, seen: View, shape: tuple[int, ...]) -> None:
    if seen.shape is not None and seen.shape != shape:
        raise ValueError(f"{name} has the shape {list(seen.shape)}; this run wants {list(shape)}")


def _want_type(name: str, seen: View, wanted: Any) -> None:
    if not seen.is_a(wanted):
        raise ValueError(f"{name} is {seen.type}; the plan's problem says {wanted.name}")


def _strides(name: str, seen: View, channels: bool) -> _abi.Strides:
    """Of a [T, heads(, channels)] or [N, T / N, heads(, channels)] tensor; 0s: contiguous."""
    if seen.strides is None or seen.shape is None:
        return _abi.Strides()
    shape, strides = seen.shape, seen.strides
    if channels:
        if shape[-1] > 1 and strides[-1] != 1:
            raise ValueError(
                f"{name} has strides {list(strides)}; its last dimension must be contiguous"
            )
        shape, strides = shape[:-1], strides[:-1]
    if math.prod(shape) > 1 and not any(strides):  # which the library takes for contiguous
        raise ValueError(
            f"{name} has strides {list(seen.strides)}, one row for all tokens and heads; pass a "
            "contiguous copy"
        )
    if len(shape) == 2:
        return _abi.Strides(0, *strides)
    return _abi.Strides(*strides)


def _contiguous(name: str, seen: View, element: int = 1) -> None:
    if seen.strides is None or seen.shape is None:
        return
    expected = element
    for size, stride in zip(reversed(seen.shape), reversed(seen.strides)):
        if size > 1 and stride != expected:
            raise ValueError(f"{name} has strides {list(seen.strides)}; it must be contiguous")
        expected *= size


def _table(name: str, seen: View) -> _abi.IndexTable:
    shape, strides = seen.shape, seen.strides
    columns = 1 if shape is None or len(shape) == 1 else shape[1]
    if shape is None or strides is None:
        return _abi.IndexTable(seen.pointer, columns, 0)
    if columns > 1 and strides[1] != 1:
        raise ValueError(f"{name} has strides {list(strides)}; its rows must be contiguous")
    if shape[0] > 1 and strides[0] == 0:  # which the library takes for contiguous
        raise ValueError(
            f"{name} has strides {list(strides)}; each sequence needs a row of its own, so pass a "
            "contiguous copy"
        )
    return _abi.IndexTable(seen.pointer, columns, strides[0] if shape[0] > 1 else 0)


def _layout(name: str, seen: View) -> tuple[int, int]:
    """Slots of a pool, and elements from one to the next; of one slot no matter how many."""
    assert seen.shape is not None
    slots, slot = seen.shape[0], math.prod(seen.shape[1:])
    if slots == 1 or seen.strides is None:
        return slots, 0 if slots == 1 else slot
    if seen.strides[0] < slot:  # 0 the library takes for contiguous
        raise ValueError(
            f"{name} has strides {list(seen.strides)}, so its slots overlap; the first must be {slot} "
            "or more"
        )
    return slots, seen.strides[0]


def forward_of(
    problem: Problem,
    given: Sequence[Any],
    pool: Optional[StatePool],
    sequences: Optional[int],
    stream: int,
    others: Sequence[Any] = (None, None, None),
) -> tuple[_abi.Forward, list[View], dict[int, str]]:
    """The struct, what must outlive the call, and streams to go after, each with a tensor that is
    ready there.  Raises ValueError where a tensor does not fit.

    `given` are the tensors in the order of _abi.POINTERS; `others` are w, u and committed_tokens.
    """
    p = problem
    tensors = dict(zip(_abi.POINTERS, given))
    cu_seqlens = tensors["cu_seqlens"]
    raw = _abi.forward()
    keep: list[View] = []
    streams: dict[int, str] = {}
    at: dict[int, str] = {}  # CUDA devices

    def seen(name: str, tensor: Any) -> View:
        found = view(name, tensor, stream)
        keep.append(found)
        if found.device is not None:
            at.setdefault(found.device, name)
            if len(at) > 1:
                (device, first), *_ = at.items()
                raise ValueError(
                    f"{name} is on the CUDA device {found.device} and {first} on {device}; they must "
                    "be together"
                )
        if found.stream is not None:
            streams.setdefault(found.stream, name)
        return found

    inner = {
        "q": (p.heads, p.key_dim),
        "k": (p.heads, p.key_dim),
        "v": (p.value_heads, p.value_dim),
        "g": (p.value_heads, p.key_dim),
        "beta": (p.value_heads,),
        "o": (p.value_heads, p.value_dim),
    }
    types = {"g": p.gate_type, "beta": p.beta_type}

    q = seen("q", tensors["q"])
    if q.shape is None:
        raise TypeError("q is an address; a run takes its size from q, so q must be a tensor")
    if len(q.shape) not in (3, 4):
        raise ValueError(f"q has the shape {list(q.shape)}; it is [T, H, K] or [N, T / N, H, K]")
    if sequences is not None:
        sequences = whole("sequences", ctypes.c_int32, sequences, errors.InvalidArgument)
    outer = q.shape[:-2]
    raw.tokens = outer[0] if len(outer) == 1 else outer[0] * outer[1]
    if cu_seqlens is not None:
        cu = seen("cu_seqlens", cu_seqlens)
        _want_type("cu_seqlens", cu, p.cu_seqlens_type)
        _contiguous("cu_seqlens", cu)
        raw.cu_seqlens = cu.pointer
        if len(outer) == 2 and outer[0] != 1:
            raise ValueError(
                f"q has the shape {list(q.shape)}; with cu_seqlens it is packed, N = 1"
            )
        packed = 1 if sequences is None else sequences
        if cu.shape is not None:
            if len(cu.shape) != 1:
                raise ValueError(f"cu_seqlens has the shape {list(cu.shape)}; it is [N + 1]")
            packed = cu.shape[0] - 1
            if sequences not in (None, packed):
                raise ValueError(
                    f"sequences = {sequences}, and cu_seqlens has the shape {list(cu.shape)}, of "
                    f"{packed} sequences; leave sequences out"
                )
        raw.sequences = packed
    else:
        if len(outer) == 2 and sequences not in (None, outer[0]):
            raise ValueError(
                f"sequences = {sequences}, and q has the shape {list(q.shape)}, {outer[0]} "
                "sequences apart; leave sequences out, or give the tokens as [T, ...]"
            )
        apart = outer[0] if len(outer) == 2 else 1
        raw.sequences = apart if sequences is None else sequences

    for name, dims in inner.items():
        found = q if name == "q" else seen(name, tensors[name])
        _want(name, found, outer + dims)
        _want_type(name, found, types.get(name, p.qkv_type))
        strides = _strides(name, found, channels=len(dims) == 2)
        if len(outer) == 1 and raw.sequences and cu_seqlens is None:
            strides.sequence = raw.tokens // raw.sequences * strides.token
        setattr(raw, name, found.pointer)
        setattr(raw, f"{name}_strides", strides)

    HV, K = p.value_heads, p.key_dim
    for name, count in (("A_log", HV), ("dt_bias", HV * K)):
        tensor = tensors[name]
        if tensor is None:
            continue
        found = seen(name, tensor)
        if found.type not in ("", "f32"):
            raise ValueError(f"{name} is {found.type}; it is always f32")
        if found.shape is not None and math.prod(found.shape) != count:
            raise ValueError(
                f"{name} has {math.prod(found.shape)} elements; it needs {count} (HV={HV}, K={K})"
            )
        _contiguous(name, found)
        setattr(raw, name, found.pointer)

    dims = (p.key_dim, p.value_dim)
    if p.state_layout is StateLayout.value_first:
        dims = dims[::-1]
    laid_out = None  # a pool's first tensor
    for name in ("initial_state", "final_state"):
        tensor = tensors[name]
        if tensor is None:
            continue
        found = seen(name, tensor)
        _want_type(name, found, p.state_type)
        setattr(raw, name, found.pointer)
        if pool is None:
            _want(name, found, (raw.sequences, p.value_heads, *dims))
            _contiguous(name, found)
        elif found.shape is not None:
            _want(name, found, (found.shape[0], p.value_heads, *dims))
            inside = found.strides[1:] if found.strides else None
            _contiguous(name, found._replace(shape=found.shape[1:], strides=inside))
            slots, stride = _layout(name, found)
            if laid_out not in (None, (slots, stride)):
                raise ValueError(
                    f"{name} has {slots} slots, a stride of {stride}, and is not laid out as "
                    f"initial_state, with {raw.pool.slots} and {raw.pool.stride}; both are one pool's"
                )
            laid_out = slots, stride
            raw.pool.slots, raw.pool.stride = slots, stride

    if pool is not None:
        for field in ("indices", "initial_indices", "num_accepted_tokens", "checkpoints"):
            tensor = getattr(pool, field)
            if tensor is None:
                continue
            found = seen(field, tensor)
            _want_type(field, found, p.slot_index_type)
            if found.shape is not None and (not found.shape or found.shape[0] < raw.sequences):
                raise ValueError(
                    f"{field} has shape {list(found.shape)}; it needs a row for each of "
                    f"{raw.sequences} sequences"
                )
            is_table = field in ("indices", "checkpoints")
            if found.shape is not None and len(found.shape) not in ((1, 2) if is_table else (1,)):
                wanted = "[N] or [N, columns]" if is_table else "[N]"
                raise ValueError(f"{field} has shape {list(found.shape)}; it is {wanted}")
            if is_table:
                setattr(raw.pool, field, _table(field, found))
            else:
                _contiguous(field, found)
                setattr(raw.pool, field, found.pointer)
    *wy, committed = others
    if committed is not None:
        found = seen("committed_tokens", committed)
        _want("committed_tokens", found, (raw.sequences,))
        _want_type("committed_tokens", found, p.slot_index_type)
        _contiguous("committed_tokens", found)
        raw.committed_tokens = found.pointer
    for name, tensor, channels in zip("wu", wy, (p.key_dim, p.value_dim)):
        if tensor is None:
            continue
        if not p.wy_chunk:
            raise ValueError(f"{name} is given, but Problem.wy_chunk = 0; make the plan with it")
        found = seen(name, tensor)
        chunks = -(-raw.tokens // (max(raw.sequences, 1) * p.wy_chunk))
        _want(name, found, (raw.sequences, p.value_heads, chunks, p.wy_chunk, channels))
        _want_type(name, found, p.qkv_type)
        _contiguous(name, found)
        setattr(raw, name, found.pointer)
    return raw, keep, streams


def _is_torch(tensor: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def is_plain_torch(tensor: Any) -> bool:
    """Whether it is torch's own and no subclass, which may be no memory at all."""
    torch = sys.modules.get("torch")
    return torch is not None and type(tensor) in (torch.Tensor, torch.nn.Parameter)


def torch_device(tensor: Any) -> Optional[int]:
    """The CUDA device of a torch tensor."""
    if not _is_torch(tensor) or not tensor.is_cuda:
        return None
    index: int = tensor.get_device()
    return index


def device_apart(tensor: Any) -> Optional[int]:
    """The same where it is not the current one."""
    index = torch_device(tensor)
    if index is None or index == sys.modules["torch"]._C._cuda_getDevice():
        return None
    return index


def context_was_missing(index: int) -> bool:
    """Whether the last call failed for that; then this thread has torch's CUDA context now.

    A new thread has none until something of torch's has run in it, and nothing was enqueued.
    """
    if "no CUDA context is current" not in _abi.last_message():
        return False
    sys.modules["torch"].zeros(1, device=f"cuda:{index}")
    return True


def first_stream(
    tensors: dict[str, Any], pool: Optional[StatePool], others: Sequence[Any], workspace: Any
) -> int:
    """The first that a ``__cuda_array_interface__`` of a run names, else the default stream."""
    given = {"q": tensors["q"], **tensors, **(vars(pool) if pool is not None else {})}
    given.update(zip(("w", "u", "committed_tokens"), others), workspace=workspace)
    for name, tensor in given.items():
        stream = stream_named(name, tensor)
        if stream is not None:
            return stream
    return 0


def stream_of(stream: Any, tensor: Any) -> Optional[int]:
    """A CUstream as an int, from an int, torch's, CuPy's or anything with ``__cuda_stream__``.

    Without one torch's current stream for its tensors, and None for others.
    """
    if stream is None:
        if not _is_torch(tensor) or not tensor.is_cuda:
            return None
        # What torch's own compiled code calls; the public form costs microseconds.
        current: int = sys.modules["torch"]._C._cuda_getCurrentRawStream(tensor.get_device())
        return current
    if isinstance(stream, int):
        return known_as(whole("stream", ctypes.c_void_p, stream, errors.InvalidArgument))
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return known_as(int((protocol() if callable(protocol) else protocol)[1]))
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return known_as(int(getattr(stream, attribute)))
    raise TypeError(
        f"stream is a {type(stream).__name__}; it may be an int, a torch or CuPy stream, or an "
        "object with __cuda_stream__"
    )


def _workspace_on(queue: int, needed: int, device: Any) -> Any:
    """Of torch's allocator, which reuses it in the order of that stream."""
    torch = sys.modules["torch"]
    if queue:
        stream = torch.cuda.ExternalStream(queue, device=device)
    else:  # which ExternalStream would take for no address, and make a stream
        stream = torch.cuda.default_stream(device)
    with torch.cuda.stream(stream):
        return torch.empty(needed, dtype=torch.uint8, device=device)


def _want_workspace_of_torch(workspace: Any, tensor: Any) -> None:
    if not workspace.is_cuda:
        raise ValueError(f"workspace is on {workspace.device}; kda needs CUDA memory")
    ordinal = ordinal_of(tensor)
    if ordinal not in (None, workspace.get_device()):
        raise ValueError(
            f"workspace is on {workspace.device} and q on cuda:{ordinal}; they must be together"
        )
    if not workspace.is_contiguous():
        raise ValueError(f"workspace has strides {list(workspace.stride())}; it must be contiguous")


def workspace_of(
    workspace: Any, needed: int, tensor: Any, queue: int
) -> tuple[int, int, Any, Optional[int]]:
    """Address, bytes, what holds them, which may go once the kernels are enqueued on `queue`, and
    the stream to go after.
    """
    if workspace is None:
        if not needed:
            return 0, 0, None, None
        if not _is_torch(tensor):
            raise ValueError(
                f"workspace is missing; this plan needs {needed} bytes of device memory (only for "
                "torch tensors is it allocated here)"
            )
        torch = sys.modules["torch"]
        index = tensor.get_device()
        if queue != torch._C._cuda_getCurrentRawStream(index):
            workspace = _workspace_on(queue, needed, tensor.device)
            return workspace.data_ptr(), needed, workspace, None
        # What torch's own compiled code calls; the public form costs a microsecond.
        make = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
        if make is not None and index == torch._C._cuda_getDevice():
            workspace = make((needed,), (1,), torch.uint8)
        else:
            workspace = torch.empty(needed, dtype=torch.uint8, device=tensor.device)
        return workspace.data_ptr(), needed, workspace, None
    if isinstance(workspace, int):  # the caller's word
        address = whole("workspace", ctypes.c_void_p, workspace, errors.InvalidArgument)
        return address, needed, None, None
    if _is_torch(workspace):
        _want_workspace_of_torch(workspace, tensor)
        size = workspace.numel() * workspace.element_size()
        return workspace.data_ptr(), size, workspace, None
    if hasattr(workspace, "__cuda_array_interface__"):
        interface = workspace.__cuda_array_interface__
        strides = interface.get("strides")
        element = int(interface["typestr"][2:])
        size = element * math.prod(interface["shape"])
        seen = View(0, tuple(interface["shape"]), strides, "", None)
        _contiguous("workspace", seen, element)
        stream = stream_of_interface("workspace", interface)
        return interface["data"][0], size, workspace, stream
    raise TypeError(
        f"workspace is a {type(workspace).__name__}; it may be a torch tensor, an object with "
        "__cuda_array_interface__, or an address"
    )
