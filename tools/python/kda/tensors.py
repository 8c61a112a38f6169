"""Tensors of any framework as pointer, shape, strides and type; nothing is copied.

Taken, in this order: torch tensors, ``__cuda_array_interface__`` (CuPy, Numba, Warp, ...),
``__dlpack__`` (JAX, TensorFlow, ...), and a plain int, an address that says nothing of its shape.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, Mapping, NamedTuple, Optional

from kda import errors
from kda._fields import whole
from kda._streams import known_as
from kda.problem import DType, Index

__all__ = [
    "View",
    "check_memory",
    "check_sign",
    "null_of",
    "stream_named",
    "stream_of_interface",
    "view",
]

# The interface has no name for bf16: ml_dtypes and torch call it void, others an unsigned integer.
_BF16_TYPESTRS = ("<V2", "|V2", "<u2")
_TYPESTRS = {
    "<f4": "f32",
    "<f2": "f16",
    "<i4": "i32",
    "<i8": "i64",
    **dict.fromkeys(_BF16_TYPESTRS, "bf16"),
}
_TORCH_TYPES = {
    "torch.float32": "f32",
    "torch.bfloat16": "bf16",
    "torch.float16": "f16",
    "torch.int32": "i32",
    "torch.int64": "i64",
}
# DLDataType: (code, bits).
_DLPACK_TYPES = {(2, 32): "f32", (4, 16): "bf16", (2, 16): "f16", (0, 32): "i32", (0, 64): "i64"}
_WRITTEN = ("o", "final_state", "w", "u")
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


class View(NamedTuple):
    """What kda needs of a tensor.  `keep` holds what the pointer lives in."""

    pointer: int
    shape: Optional[tuple[int, ...]]  # None: a bare address
    strides: Optional[tuple[int, ...]]  # in elements; None: contiguous
    type: str  # a name of DType or Index; "": not said
    keep: Any
    stream: Optional[int] = None  # whose work so far must be done first; None: it is, or is seen to
    device: Optional[int] = None  # CUDA ordinal; None: not said

    def is_a(self, wanted: DType | Index) -> bool:
        return self.type in ("", wanted.name)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def check_memory(name: str, tensor: Any) -> None:
    """That torch's address of it is one: to the library null is what was not given."""
    if math.prod(tensor.shape) > 0 and tensor.data_ptr() == 0:
        raise ValueError(
            f"{name} is a {type(tensor).__name__} without memory of its own; pass the tensor that "
            "has it, as DTensor.to_local() is"
        )


def null_of(name: str, tensor: Any) -> int:
    """Null, once the address is: of remembered torch tensors whose memory may be gone since."""
    check_memory(name, tensor)
    return 0


def check_sign(name: str, tensor: Any) -> None:
    """That its memory holds its values, which torch may negate lazily."""
    if hasattr(tensor, "is_neg") and tensor.is_neg():
        raise ValueError(
            f"{name} is negated lazily, and its memory holds the other sign; pass what its "
            "resolve_neg() makes"
        )


def _of_torch(name: str, tensor: Any) -> View:
    if not tensor.is_cuda:
        raise ValueError(f"{name} is on {tensor.device}; kda reads CUDA memory")
    kind = _TORCH_TYPES.get(str(tensor.dtype))
    if kind is None:
        raise ValueError(f"{name} is {tensor.dtype}; known: {', '.join(_TORCH_TYPES)}")
    check_memory(name, tensor)
    check_sign(name, tensor)
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    return View(tensor.data_ptr(), shape, strides, kind, tensor, device=ordinal_of(tensor))


def stream_of_interface(name: str, interface: Mapping[str, Any]) -> Optional[int]:
    """The stream on which it says that the tensor is ready, the default one as 0."""
    stream: Optional[int] = interface.get("stream")
    if stream == 0:
        raise ValueError(
            f"{name} has stream = 0 in its __cuda_array_interface__, which may be either default "
            "stream; the protocol's numbers of them are 1 (legacy) and 2 (per thread)"
        )
    return None if stream is None else known_as(stream)


def _has_memory_of_torch(tensor: Any) -> bool:
    return hasattr(tensor, "data_ptr") and hasattr(tensor, "is_cuda")


def _interface_of(tensor: Any) -> Optional[Mapping[str, Any]]:
    """Its ``__cuda_array_interface__``, if it has one."""
    try:
        interface: Mapping[str, Any] = tensor.__cuda_array_interface__
    except Exception:  # JAX refuses it of bf16 by an error of its own; DLPack it gives
        return None
    return interface


def stream_named(name: str, tensor: Any) -> Optional[int]:
    """That stream of any tensor; None where it has no such interface or names none."""
    if tensor is None or type(tensor) is int or _has_memory_of_torch(tensor):
        return None
    interface = _interface_of(tensor)
    return None if interface is None else stream_of_interface(name, interface)


def _of_interface(name: str, tensor: Any, interface: Mapping[str, Any]) -> View:
    typestr = interface["typestr"]
    kind = _TYPESTRS.get(typestr)
    if kind is None:
        raise ValueError(f"{name} has the type {typestr}; known: {', '.join(_TYPESTRS)}")
    size = int(typestr[2:])
    strides = interface.get("strides")
    if strides is not None:
        if any(stride % size for stride in strides):
            raise ValueError(f"{name} has strides of {strides} bytes, not whole elements of {size}")
        strides = tuple(stride // size for stride in strides)
    stream = stream_of_interface(name, interface)
    pointer, read_only = interface["data"]
    if read_only and name in _WRITTEN:
        raise ValueError(f"{name} is read-only, by its __cuda_array_interface__; a run writes it")
    return View(pointer or 0, tuple(interface["shape"]), strides, kind, tensor, stream)


def _ordinal_of_dlpack(device_type: int, ordinal: int) -> Optional[int]:
    return int(ordinal) if device_type == _DLPACK_CUDA[0] else None  # managed memory is of all


def ordinal_of(tensor: Any) -> Optional[int]:
    """Its CUDA device; None where it does not say, or is not of one."""
    if hasattr(tensor, "get_device"):
        index: int = tensor.get_device()
        return index
    if hasattr(tensor, "__dlpack_device__"):
        return _ordinal_of_dlpack(*tensor.__dlpack_device__())
    return None


def _of_dlpack(name: str, tensor: Any, stream: int) -> View:
    device_type, ordinal = tensor.__dlpack_device__()
    if device_type not in _DLPACK_CUDA:
        raise ValueError(
            f"{name} is on the DLPack device type {device_type}; kda reads CUDA memory"
        )
    # 1 is the protocol's word for the legacy default stream, which 0 may not name.
    capsule = tensor.__dlpack__(stream=stream or 1)
    # The capsule is not consumed: dropping it gives the memory back.
    dl = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    kind = _DLPACK_TYPES.get((dl.code, dl.bits)) if dl.lanes == 1 else None
    if kind is None:
        raise ValueError(
            f"{name} has the DLPack type (code {dl.code}, {dl.bits} bits, {dl.lanes} lanes); "
            f"known: {', '.join(_DLPACK_TYPES.values())}"
        )
    shape = tuple(dl.shape[i] for i in range(dl.ndim))
    strides = tuple(dl.strides[i] for i in range(dl.ndim)) if dl.strides else None
    pointer = (dl.data or 0) + dl.byte_offset
    device = _ordinal_of_dlpack(device_type, ordinal)
    return View(pointer, shape, strides, kind, (tensor, capsule), device=device)


def view(name: str, tensor: Any, stream: int = 0) -> View:
    """`tensor` as kda sees it.

    DLPack orders its framework's work before `stream`.  ``__cuda_array_interface__`` names a stream
    of its own, View.stream, and the caller is the one to put its work before.
    """
    if type(tensor) is int:
        address = whole(name, ctypes.c_void_p, tensor, errors.InvalidArgument)
        return View(address, None, None, "", None)
    if _has_memory_of_torch(tensor):
        return _of_torch(name, tensor)
    interface = _interface_of(tensor)
    if interface is not None:
        return _of_interface(name, tensor, interface)
    if hasattr(tensor, "__dlpack__"):
        return _of_dlpack(name, tensor, stream)
    raise TypeError(
        f"{name} is a {type(tensor).__name__}; it may be a torch tensor, an object with "
        "__cuda_array_interface__ or __dlpack__, or the address of device memory as an int"
    )
