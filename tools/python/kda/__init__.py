"""Kimi Delta Attention for NVIDIA GPUs, composed and compiled at run time.

A :class:`Plan` is made once for a :class:`Problem` and run many times; it takes tensors of torch,
CuPy, JAX and others.  :mod:`kda.torch` has what PyTorch programs call today under other names:
``chunk_kda``, ``fused_recurrent_kda``, ``flash_kda_fwd``.

This package is ctypes over libkda's C interface (include/kda/kda.h): it links no torch and no CUDA.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from kda._bundle import add_bundle
from kda._log import LogLevel, set_log
from kda._run import StatePool
from kda.errors import (
    CompileError,
    DeviceError,
    Error,
    InvalidArgument,
    InvalidProblem,
    NoWisdom,
    Unsupported,
)
from kda.plan import Plan, supports
from kda.problem import CacheMode, DType, Effort, Gate, Index, Options, Problem, StateLayout

if TYPE_CHECKING:
    from kda import torch as torch

__version__ = "0.1.0"

__all__ = [
    "CacheMode",
    "CompileError",
    "DType",
    "DeviceError",
    "Effort",
    "Error",
    "Gate",
    "Index",
    "InvalidArgument",
    "InvalidProblem",
    "LogLevel",
    "NoWisdom",
    "Options",
    "Plan",
    "Problem",
    "StateLayout",
    "StatePool",
    "Unsupported",
    "add_bundle",
    "library_version",
    "set_log",
    "supports",
]


def library_version() -> tuple[int, int, int]:
    """Of the libkda.so in use: major, minor, patch."""
    from kda import _abi

    return _abi.version()


def __getattr__(name: str) -> ModuleType:
    """kda.torch is imported at its first use: torch is optional."""
    if name == "torch":
        try:
            return importlib.import_module("kda.torch")
        except ImportError as error:  # which hasattr would let through
            raise AttributeError(f"module 'kda' has no attribute 'torch': {error}") from error
    raise AttributeError(f"module 'kda' has no attribute {name!r}")
