"""Compiled kernels that come with a program, for machines without a compiler."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Union

from kda import _abi

__all__ = ["add_bundle"]

_kept: list[Any] = []  # the library reads them until the process ends


def add_bundle(bundle: Union[bytes, str, os.PathLike[str]]) -> None:
    """Plans made from now on find their kernels in it before a compiler is asked for.

    `bundle` is a file that ``kda-tune bundle create`` wrote, or its bytes.  Raises InvalidArgument,
    saying what is wrong, where it is no bundle.
    """
    if not isinstance(bundle, bytes):
        with open(bundle, "rb") as file:
            bundle = file.read()
    memory = ctypes.create_string_buffer(bundle, len(bundle))
    _abi.check(_abi.library().kda_add_bundle(memory, len(bundle)))
    _kept.append(memory)
