"""What test files import from each other's midst: the tree's root, and tensors of no framework."""

import ctypes
import itertools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Array:
    """A tensor of no framework, at an address of its own; nothing reads the memory."""

    _next = itertools.count(1)

    def __init__(self, shape, typestr="<V2", strides=None, **more):
        self.pointer = next(Array._next) << 32
        self.__cuda_array_interface__ = {
            "shape": tuple(shape),
            "typestr": typestr,
            "data": (self.pointer, False),
            "strides": strides,
            "version": 3,
            **more,
        }


class Exporter:
    """A tensor that speaks DLPack alone."""

    def __init__(self, shape, strides, code, bits, device=2, offset=0):
        from kda.tensors import _DLTensor  # not before conftest.py has said where kda is

        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self._device = device
        self.asked = []
        # What follows the DLTensor in a DLManagedTensor is for its owner.
        self._tensor = _DLTensor(
            data=1 << 33, device_type=device, device_id=0, ndim=len(shape), code=code, bits=bits,
            lanes=1, shape=self._shape, strides=self._strides, byte_offset=offset,
        )  # fmt: skip

    def __dlpack_device__(self):
        return self._device, 0

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)
