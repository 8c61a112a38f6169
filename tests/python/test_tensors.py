"""kda.tensors: what other frameworks say of their tensors, read without them."""

import ctypes

import pytest
from support import Array

from kda import DType
from kda.tensors import _DLTensor, view


def test_cuda_array_interface():
    array = Array((3, 4), "<f4", strides=(32, 4))
    seen = view("x", array)
    assert seen[:4] == (array.pointer, (3, 4), (8, 1), "f32")
    assert seen.is_a(DType.f32) and not seen.is_a(DType.bf16)
    assert view("x", Array((3,), "<f2")).type == "f16"
    assert view("x", Array((3,), "<i8")).type == "i64"
    assert view("x", Array((3,), "<V2")).type == "bf16"
    with pytest.raises(ValueError, match="x has the type <f8"):
        view("x", Array((3,), "<f8"))


class Exporter:
    """A tensor that speaks DLPack alone."""

    def __init__(self, shape, strides, code, bits, device=2, offset=0):
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


def test_dlpack():
    exporter = Exporter((2, 3, 4), (12, 4, 1), code=4, bits=16, offset=64)
    seen = view("x", exporter, stream=7)
    assert seen[:4] == ((1 << 33) + 64, (2, 3, 4), (12, 4, 1), "bf16")
    assert exporter.asked == [7]
    view("x", exporter)
    assert exporter.asked == [7, 1]  # the protocol's number of the default stream
    assert view("x", Exporter((5,), None, code=2, bits=32)).strides is None
    with pytest.raises(ValueError, match="x is on the DLPack device type 1"):
        view("x", Exporter((5,), None, code=2, bits=32, device=1))
    with pytest.raises(ValueError, match="64 bits"):
        view("x", Exporter((5,), None, code=2, bits=64))


def test_addresses_and_what_is_no_tensor():
    assert view("x", 4096)[:4] == (4096, None, None, "")
    with pytest.raises(TypeError, match="x is a list"):
        view("x", [1.0])


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="x is on cpu; kda reads CUDA memory"):
        view("x", torch.zeros(3))
