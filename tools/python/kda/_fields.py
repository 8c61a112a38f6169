"""A caller's values as fields of a C struct, where ctypes would cut off what does not fit."""

from __future__ import annotations

import ctypes
import math
import operator
import os
from typing import Any, Optional

from kda import errors

__all__ = ["fill", "whole"]

_FLOATS = (ctypes.c_float, ctypes.c_double)


def whole(field: str, kind: Any, value: Any, refusal: type[errors.Error]) -> int:
    """The value as an int of that C type."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{field} = {value!r} is not an integer") from None
    bits = 8 * ctypes.sizeof(kind)
    least = 0 if kind is ctypes.c_void_p else -(1 << (bits - 1))
    if not least <= number < least + (1 << bits):
        raise refusal(f"{field} = {number}; it must be in {least}..{least + (1 << bits) - 1}")
    return number


def _real(field: str, kind: Any, value: Any, refusal: type[errors.Error]) -> float:
    if isinstance(value, (str, bytes)):  # which float() would read
        raise TypeError(f"{field} = {value!r} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise refusal(f"{field} = {value}; it is past every float") from None
    except (TypeError, ValueError):
        raise TypeError(f"{field} = {value!r} is not a number") from None
    kept: float = kind(number).value
    if math.isinf(kept) and not math.isinf(number):
        raise refusal(f"{field} = {number}; its 32 bits reach from -3.4e38 to 3.4e38")
    if kept == 0 and number != 0:
        raise refusal(f"{field} = {number}; its 32 bits make that 0, so pass 0 or 1.2e-38 or more")
    return number


def _word(field: str, value: Any, refusal: type[errors.Error]) -> Optional[bytes]:
    """Text or a path; a file's name may be of any bytes.  None where it is empty."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{field} = {value!r} is not a str or a path")
    word = os.fsencode(value)
    if b"\0" in word:
        raise refusal(f"{field} = {value!r} has a null character, where C would end it")
    return word or None


def fill(raw: ctypes.Structure, given: Any, refusal: type[errors.Error]) -> None:
    """Every field but struct_size, which the library fills in.

    Raises TypeError, and the refusal where a value does not fit its field.
    """
    for entry in raw._fields_[1:]:
        field, kind = entry[0], entry[1]
        value = getattr(given, field)
        if kind is ctypes.c_char_p:
            value = None if value is None else _word(field, value, refusal)
        elif kind in _FLOATS:
            value = _real(field, kind, value, refusal)
        elif not (value is None and kind is ctypes.c_void_p):
            value = whole(field, kind, value, refusal)
        setattr(raw, field, value)
