"""The library's messages.  It is silent unless KDA_LOG or set_log asks."""

from __future__ import annotations

import enum
import os
import sys
from typing import Any, Callable, Optional

from kda import _abi

__all__ = ["LogLevel", "set_log"]


class LogLevel(enum.IntEnum):
    """Least first."""

    trace = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    off = 5


Sink = Callable[[LogLevel, str], Any]
_kept: Any = None  # the library calls it from any thread, so it must not go
_least: Optional[LogLevel] = None  # of set_log


def set_log(level: LogLevel, sink: Optional[Sink] = None) -> None:
    """From now on messages of this level and above go to the sink; without one, to stderr.

    Called from any thread, one message at a time.  The sink must not call kda.  Wins over KDA_LOG.
    """

    def call(said: int, text: bytes, _: Any) -> None:
        if sink is not None:
            sink(LogLevel(said), text.decode("utf-8", "replace"))

    global _kept, _least
    wrapped = _abi.LogSink(call) if sink is not None else _abi.LogSink()
    _abi.check(_abi.library().kda_set_log(int(level), wrapped, None))
    _kept, _least = wrapped, level


def _least_of_environment() -> LogLevel:
    """As libkda reads it."""
    word = os.environ.get("KDA_LOG", "").strip().lower()
    return LogLevel.__members__.get(word, LogLevel.warn) if word else LogLevel.off


def warn(text: str) -> None:
    """A message of the package's own, which goes where libkda's go."""
    if LogLevel.warn < (_least_of_environment() if _least is None else _least):
        return
    if _kept:
        _kept(int(LogLevel.warn), text.encode(), None)  # through C, which lets no exception out
    else:
        print(f"[kda] warning: {text}", file=sys.stderr)
