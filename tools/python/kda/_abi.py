"""include/kda/kda.h for ctypes: its structs and calls, under the same names.

tests/python/test_abi.py holds every offset and size to what the C compiler makes of the header.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t
from ctypes import c_void_p
from typing import Any, Callable, NamedTuple

from kda import errors
from kda._library import open_library

# kda_code, in order.
CODES: tuple[type[errors.Error] | None, ...] = (
    None,
    errors.InvalidArgument,
    errors.InvalidProblem,
    errors.Unsupported,
    errors.NoWisdom,
    errors.CompileError,
    errors.DeviceError,
)


class Problem(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("heads", c_int32),
        ("value_heads", c_int32),
        ("key_dim", c_int32),
        ("value_dim", c_int32),
        ("max_tokens", c_int64),
        ("max_sequences", c_int32),
        ("varlen", c_int32),
        ("cu_seqlens_type", c_int32),
        ("qkv_type", c_int32),
        ("gate_type", c_int32),
        ("beta_type", c_int32),
        ("state_type", c_int32),
        ("gate", c_int32),
        ("lower_bound", c_float),
        ("beta_is_logit", c_int32),
        ("allow_neg_eigval", c_int32),
        ("l2norm_qk", c_int32),
        ("scale", c_float),
        ("state_layout", c_int32),
        ("initial_state", c_int32),
        ("final_state", c_int32),
        ("state_pool", c_int32),
        ("slot_index_type", c_int32),
        ("draft_states", c_int32),
        ("checkpoint_tokens", c_int32),
        ("zero_padding", c_int32),
        ("mixed_lengths", c_int32),
        ("wy_chunk", c_int32),
        ("committed_tokens", c_int64),
        ("beta_at_most_one", c_int64),
        ("qk_normalized", c_int64),
    ]


class Options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("effort", c_int32),
        ("time_limit_seconds", c_double),
        ("stream", c_void_p),
        ("target", c_char_p),
        ("cache_dir", c_char_p),
        ("wisdom_dir", c_char_p),
        ("strategy", c_char_p),
        ("tuning", c_char_p),
        ("cache_mode", c_int32),
    ]


class Strides(Structure):
    _fields_ = [("sequence", c_int64), ("token", c_int64), ("head", c_int64)]


class IndexTable(Structure):
    _fields_ = [("data", c_void_p), ("columns", c_int32), ("stride", c_int64)]


class StatePool(Structure):
    _fields_ = [
        ("slots", c_int64),
        ("stride", c_int64),
        ("indices", IndexTable),
        ("initial_indices", c_void_p),
        ("num_accepted_tokens", c_void_p),
        ("checkpoints", IndexTable),
    ]


class Forward(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("tokens", c_int64),
        ("sequences", c_int32),
        ("cu_seqlens", c_void_p),
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("g", c_void_p),
        ("beta", c_void_p),
        ("A_log", c_void_p),
        ("dt_bias", c_void_p),
        ("initial_state", c_void_p),
        ("o", c_void_p),
        ("final_state", c_void_p),
        ("q_strides", Strides),
        ("k_strides", Strides),
        ("v_strides", Strides),
        ("g_strides", Strides),
        ("beta_strides", Strides),
        ("o_strides", Strides),
        ("pool", StatePool),
        ("w", c_void_p),
        ("u", c_void_p),
        ("committed_tokens", c_void_p),
    ]


class PrefillIO(Structure):
    """KdaPrefillIO of include/kda/prefill.h, the interface of the first CUDA kda_prefill."""

    _fields_ = [(name, c_void_p) for name in ("q", "k", "v", "g", "beta", "w", "u", "o")] + [
        (name, c_int32)
        for name in (
            "batch_size",
            "num_heads",
            "seq_len",
            "head_dim",
            "value_dim",
            "chunk_size",
            "num_chunks",
        )
    ]


# The pointers of kda_forward, in order and side by side: all that changes from call to call.
POINTERS = (
    "cu_seqlens",
    "q",
    "k",
    "v",
    "g",
    "beta",
    "A_log",
    "dt_bias",
    "initial_state",
    "o",
    "final_state",
)
# With a pool also those of kda_state_pool: indices.data, and these, side by side; and at the struct's
# end committed_tokens.
SLOTS = ("initial_indices", "num_accepted_tokens", "checkpoints")


class Form(NamedTuple):
    """A kda_forward but for its POINTERS: ``pack(head, *pointers, tail)``."""

    pack: Callable[..., bytes]
    head: bytes
    tail: bytes


class PooledTail(NamedTuple):
    """The tail of a Form with a pool: ``pack(head, indices, table, *slots, tail, committed_tokens)``."""

    pack: Callable[..., bytes]
    head: bytes
    table: bytes
    tail: bytes


# P, an address of this machine, is what struct packs fastest.
_pack = struct.Struct(
    f"{Forward.cu_seqlens.offset}s{len(POINTERS)}P"
    f"{ctypes.sizeof(Forward) - Forward.q_strides.offset}s"
).pack
# In the tail: from the indices' pointer to past the last of SLOTS.
_INDICES = Forward.pool.offset + StatePool.indices.offset - Forward.q_strides.offset
_SLOTS = Forward.pool.offset + StatePool.initial_indices.offset - Forward.q_strides.offset
_AFTER = _SLOTS + 8 * len(SLOTS)


def form(raw: Forward) -> Form:
    """Of all that `raw` holds beside its POINTERS."""
    whole = bytes(raw)
    return Form(_pack, whole[: Forward.cu_seqlens.offset], whole[Forward.q_strides.offset :])


def pooled_tail(f: Form) -> PooledTail:
    """Of all that its pool and what follows hold beside indices.data, SLOTS and committed_tokens."""
    head, table, tail = f.tail[:_INDICES], f.tail[_INDICES + 8 : _SLOTS], f.tail[_AFTER:-8]
    layout = f"{len(head)}sP{len(table)}s{len(SLOTS)}P{len(tail)}sP"
    return PooledTail(struct.Struct(layout).pack, head, table, tail)


LogSink = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)

_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "kda_problem_init_sized": (None, [POINTER(Problem), c_size_t]),
    "kda_options_init_sized": (None, [POINTER(Options), c_size_t]),
    "kda_forward_init_sized": (None, [POINTER(Forward), c_size_t]),
    "kda_supports": (c_int32, [POINTER(Problem), POINTER(Options)]),
    "kda_plan_make": (c_int32, [POINTER(Problem), POINTER(Options), POINTER(c_void_p)]),
    "kda_plan_make_all": (
        c_int32,
        [
            POINTER(POINTER(Problem)),
            c_size_t,
            POINTER(Options),
            POINTER(c_void_p),
            POINTER(c_int32),
        ],
    ),
    "kda_plan_problem": (c_int32, [c_void_p, POINTER(Problem)]),
    "kda_plan_workspace_bytes": (c_size_t, [c_void_p]),
    # The struct as bytes: immutable, so that threads may share what they are made of.
    "kda_plan_run": (c_int32, [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p]),
    "kda_plan_describe": (c_char_p, [c_void_p]),
    "kda_plan_destroy": (None, [c_void_p]),
    "kda_set_log": (c_int32, [c_int32, LogSink, c_void_p]),
    "kda_prefill_f32": (c_int32, [POINTER(PrefillIO), c_void_p]),
    "kda_add_bundle": (c_int32, [c_void_p, c_size_t]),
    "kda_last_message": (c_char_p, []),
    "kda_code_name": (c_char_p, [c_int32]),
    "kda_version": (c_int32, []),
}


@functools.cache
def library() -> Any:
    """libkda with its calls typed; opened at the first use."""
    lib = open_library()
    for name, (result, arguments) in _CALLS.items():
        call = getattr(lib, name, None)
        if call is None:
            raise ImportError(f"{lib._name} has no {name}: it is older than this package")
        call.restype, call.argtypes = result, arguments
    return lib


def problem() -> Problem:
    """One with the library's defaults."""
    raw = Problem()
    library().kda_problem_init_sized(raw, ctypes.sizeof(raw))
    return raw


def options() -> Options:
    """One with the library's defaults."""
    raw = Options()
    library().kda_options_init_sized(raw, ctypes.sizeof(raw))
    return raw


def forward() -> Forward:
    """One with the library's defaults."""
    raw = Forward()
    library().kda_forward_init_sized(raw, ctypes.sizeof(raw))
    return raw


def last_message() -> str:
    """Why the last call on this thread failed."""
    return (library().kda_last_message() or b"").decode("utf-8", "replace")


def error_of(code: int) -> errors.Error:
    """The exception for a failed call; to be made on its thread, before the next call."""
    kind = CODES[code] if 0 < code < len(CODES) else None
    return (kind or errors.Error)(last_message() or library().kda_code_name(code).decode())


def check(code: int) -> None:
    if code:
        raise error_of(code)


def version() -> tuple[int, int, int]:
    """Of the library: major, minor, patch."""
    number = library().kda_version()
    return number // 10000, number // 100 % 100, number % 100
