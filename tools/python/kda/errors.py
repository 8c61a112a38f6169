"""What a call that failed raises: a kda.Error that is also the Python exception to expect."""

from __future__ import annotations

__all__ = [
    "CompileError",
    "DeviceError",
    "Error",
    "InvalidArgument",
    "InvalidProblem",
    "NoWisdom",
    "Unsupported",
]


class Error(Exception):
    """Any refusal or failure of the library; its text names the field, its value and the limit."""


class InvalidArgument(Error, ValueError):
    """A run's tensors or sizes, or an option, contradict the plan; nothing was launched."""


class InvalidProblem(Error, ValueError):
    """The Problem contradicts itself (say value_heads not a multiple of heads)."""


class Unsupported(Error, NotImplementedError):
    """Consistent, but no strategy covers it on this device, or the plan is one for Options.target,
    which does not run."""


class NoWisdom(Error, LookupError):
    """Effort.wisdom_only, and no recorded measurement fits."""


class CompileError(Error, RuntimeError):
    """NVRTC is missing or refused; the text carries its log."""


class DeviceError(Error, RuntimeError):
    """The CUDA driver is missing or refused, and the text carries its name for the error; or the
    host did, for want of memory say."""
