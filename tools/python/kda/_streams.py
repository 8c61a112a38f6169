"""Work of one stream after that of another, by an event of the CUDA driver that libkda uses too."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_int32, c_uint32, c_void_p
from typing import Any

from kda.errors import DeviceError

__all__ = ["go_after", "known_as"]

_LEGACY, _PER_THREAD = 1, 2  # the default streams' own numbers, for where 0 could mean either
_DISABLE_TIMING = 2
_CAPTURE_IMPLICIT = 906  # of the default stream while one that waits for it is captured

_CALLS: dict[str, list[Any]] = {
    "cuStreamIsCapturing": [c_void_p, POINTER(c_int32)],
    "cuEventCreate": [POINTER(c_void_p), c_uint32],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint32],
    "cuEventDestroy_v2": [c_void_p],
    "cuGetErrorName": [c_int32, POINTER(c_char_p)],
}


def known_as(stream: int) -> int:
    """A stream's number here and in the library: 0 for the default one's 1."""
    return 0 if stream == _LEGACY else stream


def _named(stream: int) -> str:
    return {0: "the default stream", _PER_THREAD: "the thread's default stream"}.get(
        stream, f"the stream {stream:#x}"
    )


@functools.cache
def _driver() -> Any:
    """libcuda with these calls typed; opened at the first use."""
    lib = ctypes.CDLL(os.environ.get("KDA_LIBCUDA_PATH") or "libcuda.so.1")
    for name, arguments in _CALLS.items():
        call = getattr(lib, name)
        call.restype, call.argtypes = c_int32, arguments
    return lib


def _check(lib: Any, code: int, what: str) -> None:
    if code:
        name = c_char_p()
        lib.cuGetErrorName(code, name)
        raise DeviceError(f"{what}: {(name.value or b'').decode() or code}")


def _capture(lib: Any, stream: int) -> int:
    """0: not captured, 1: captured; else it is in no state to be waited for."""
    status = c_int32()
    code: int = lib.cuStreamIsCapturing(stream, status)
    if code == _CAPTURE_IMPLICIT:
        return code
    _check(lib, code, f"cuStreamIsCapturing of {_named(stream)}")
    return status.value


def go_after(stream: int, first: int, name: str) -> None:
    """What is enqueued on `stream` from now on runs after all that `first` has so far.

    Both are of the current context.  `name` is the tensor that is ready on `first`.
    """
    words = f"{name} is ready on {_named(first)} and the run is on {_named(stream)}"
    try:
        lib = _driver()
    except OSError as error:
        raise DeviceError(f"{words}; no CUDA driver puts them in order: {error}") from None
    # Asked before: to wait across a capture's border would end the capture.
    if [_capture(lib, x) for x in (first, stream)] not in ([0, 0], [1, 1]):
        raise ValueError(
            f"{words}, and neither can wait for the other while a CUDA graph is captured: pass the "
            "former as stream=, or make the latter current where the tensor comes from"
        )
    event = c_void_p()
    _check(lib, lib.cuEventCreate(event, _DISABLE_TIMING), f"{words}; cuEventCreate")
    try:
        _check(lib, lib.cuEventRecord(event, first), f"{words}; cuEventRecord")
        _check(lib, lib.cuStreamWaitEvent(stream, event, 0), f"{words}; cuStreamWaitEvent")
    finally:
        lib.cuEventDestroy_v2(event)  # the driver keeps it until the wait is over
