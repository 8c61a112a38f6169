"""kda.tensors: what other frameworks say of their tensors, read without them."""

import re

import pytest
from support import Array, Exporter

from kda import DType
from kda.tensors import ordinal_of, stream_named, view


def test_cuda_array_interface():
    array = Array((3, 4), "<f4", strides=(32, 4))
    seen = view("x", array)
    assert seen[:4] == (array.pointer, (3, 4), (8, 1), "f32")
    assert seen.is_a(DType.f32) and not seen.is_a(DType.bf16)
    assert view("x", Array((3,), "<f2")).type == "f16"
    assert view("x", Array((3,), "<i8")).type == "i64"
    for bf16 in ("<V2", "|V2", "<u2"):
        assert view("x", Array((3,), bf16)).type == "bf16"
    with pytest.raises(ValueError, match="x has the type <f8"):
        view("x", Array((3,), "<f8"))


# The bug: every two-byte type that had no name was taken for bf16.
@pytest.mark.parametrize("typestr", ["<i2", ">f2", ">V2", ">u2", "|S2", "<c2", ">f4", ">i8"])
def test_other_types_are_refused_by_name(typestr):
    with pytest.raises(ValueError, match=rf"x has the type {re.escape(typestr)}; known: <f4"):
        view("x", Array((3,), typestr))


def test_the_stream_of_an_interface():
    for said, stream in ((None, None), (1, 0), (2, 2), (0x70, 0x70)):
        assert view("x", Array((3,), stream=said)).stream == stream
    assert view("x", Array((3,))).stream is None
    with pytest.raises(ValueError, match=r"x has stream = 0 in .* 1 \(legacy\) and 2"):
        view("x", Array((3,), stream=0))


# The bug: outputs were written whose framework said that they are not to be.
def test_read_only_outputs_are_refused():
    array = Array((3,), "<f4")
    interface = dict(array.__cuda_array_interface__, data=(array.pointer, True))
    reader = type("Reader", (), {"__cuda_array_interface__": interface})()
    for name in ("o", "final_state", "w", "u"):
        with pytest.raises(ValueError, match=f"{name} is read-only"):
            view(name, reader)
    assert view("q", reader).pointer == array.pointer
    assert view("o", array).pointer == array.pointer


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


# The bug: what lends its memory as torch does, but has no get_device, was an AttributeError.
def test_the_device_of_a_tensor_is_known_where_it_says_so():
    class Lender:
        is_cuda, dtype, shape = True, "torch.bfloat16", (3, 4)

        def data_ptr(self):
            return 1 << 40

        def stride(self):
            return (4, 1)

    lender = Lender()
    assert view("x", lender)[:4] == (1 << 40, (3, 4), (4, 1), "bf16")
    assert view("x", lender).device is None
    lender.get_device = lambda: 3
    assert view("x", lender).device == ordinal_of(lender) == 3
    exporter = Exporter((5,), None, code=2, bits=32)
    assert view("x", exporter).device == ordinal_of(exporter) == 0
    managed = Exporter((5,), None, code=2, bits=32, device=13)
    assert view("x", managed).device is None and ordinal_of(managed) is None
    assert ordinal_of(Array((3,))) is None


# The bug: JAX raises no AttributeError for the interface of a bf16 array, so its DLPack was not
# asked, and no array of it could be passed.
def test_an_interface_that_refuses_leaves_dlpack():
    class Refusing(Exporter):
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("INVALID_ARGUMENT: not supported for bfloat16 buffers.")

    exporter = Refusing((2, 3, 4), (12, 4, 1), code=4, bits=16)
    assert view("x", exporter, stream=7).type == "bf16"
    assert stream_named("x", exporter) is None


def test_addresses_and_what_is_no_tensor():
    assert view("x", 4096)[:4] == (4096, None, None, "")
    with pytest.raises(TypeError, match="x is a list"):
        view("x", [1.0])


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="x is on cpu; kda reads CUDA memory"):
        view("x", torch.zeros(3))


# Bug: a tensor that has no memory of its own, a DTensor say, came with a null address, which the
# library takes for not given: A_log and dt_bias were dropped.
def test_torch_tensors_without_memory_are_refused(small_plan, arrays):
    torch = pytest.importorskip("torch")

    class Wrapper(torch.Tensor):
        is_cuda, device = True, torch.device("cuda", 0)
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, *shape):
            return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise AssertionError(f"{function} is not wanted")

    for name, shape in (("A_log", (4,)), ("dt_bias", (4, 64)), ("final_state", (3, 4, 32, 64))):
        with pytest.raises(ValueError, match=f"{name} is a Wrapper without memory of its own"):
            small_plan.run(**{**arrays, name: Wrapper(*shape)})
    assert view("x", Wrapper(0, 4)).pointer == 0  # nothing is where nothing needs to be


# Bug: of a tensor that is negated lazily the memory was read, which holds the other sign.
def test_negated_torch_tensors_are_refused(small_plan, arrays):
    torch = pytest.importorskip("torch")

    class OnDevice(torch.Tensor):
        is_cuda, device = True, torch.device("cuda", 0)

    k = torch.ones(24, 2, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"k is negated lazily, .* pass what its resolve_neg\(\)"):
        small_plan.run(**{**arrays, "k": torch._neg_view(k).as_subclass(OnDevice)})
    assert view("k", k.as_subclass(OnDevice)).pointer == k.data_ptr()
