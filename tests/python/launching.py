"""Torch's calls on CPU tensors that no kernel reads: what they hand to the library, call by call."""

import ctypes

import torch

import kda
from kda import _abi
from kda.torch import _call, _ops, fla, flash, paged


class Launches(list):
    """kda_plan_run's arguments, its kda_forward as the struct; the real call sees them too."""

    problem = None

    def __init__(self, run):
        self.real = run
        self.look = lambda forward: None  # while what the call keeps alive is alive

    def __call__(self, handle, forward, workspace, workspace_bytes, stream):
        self.append(_abi.Forward.from_buffer_copy(forward))
        self.look(self[-1])
        assert handle.value and type(workspace_bytes) is ctypes.c_size_t
        aligned = -(-workspace // 256) * 256  # as CUDA memory always is
        code = self.real(handle, forward, aligned, workspace_bytes, stream)
        # All of the library's checks passed but the last.
        assert code == _abi.CODES.index(kda.Unsupported), _abi.last_message()
        return 0


def patched(monkeypatch):
    """A device that is not here: plans are made for it and check their runs."""
    seen = Launches(_abi.library().kda_plan_run)

    def plan_of(problem, index):
        seen.problem = problem
        return kda.Plan(problem, kda.Options(target="sm_90a"))

    monkeypatch.setattr(_abi.library(), "kda_plan_run", seen)
    monkeypatch.setattr(_call, "check", lambda *_: None)
    monkeypatch.setattr(_call, "plan_for", plan_of)
    monkeypatch.setattr(_call, "_current_device", lambda: -1)
    monkeypatch.setattr(_call, "_current_stream", lambda index: 0)
    monkeypatch.setattr(_call, "_empty", torch._C._dynamo.guards._empty_strided_cpu)
    for module in (_ops, fla, paged, flash):
        monkeypatch.setattr(module, "_ready", {})
    return seen


def inputs(B=3, T=1, H=2, HV=4, K=64, V=32, dtype=torch.bfloat16):
    new = lambda *shape: torch.zeros(shape, dtype=dtype)  # noqa: E731
    return (
        new(B, T, H, K),
        new(B, T, H, K),
        new(B, T, HV, V),
        new(B, T, HV, K),
        new(B, T, HV),
    )
