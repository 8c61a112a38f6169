"""A thread in which nothing of CUDA's ran has no context: torch makes one, and the call goes on.

The bug: Plan.run and torch.ops.kda_prefill raised there, where kda.torch's other calls went on.
"""

import contextlib

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from launching import inputs  # noqa: E402

import kda  # noqa: E402
from kda import _abi, tensors  # noqa: E402
from kda.torch import chunk_kda, prefill  # noqa: E402

MISSING = "kernel launch: CUDA_ERROR_INVALID_CONTEXT; no CUDA context is current in this thread"
DEVICE_ERROR = _abi.CODES.index(kda.DeviceError)


class Thread:
    """libkda in a thread without a context until torch has made something on the GPU."""

    def __init__(self, monkeypatch):
        self.made, self.runs, self.message, self.code = [], 0, MISSING, DEVICE_ERROR
        self.zeros = torch.zeros
        for name in ("kda_plan_run", "kda_prefill_f32"):
            monkeypatch.setattr(_abi.library(), name, self.run)
        monkeypatch.setattr(_abi, "last_message", lambda: self.message)

    def run(self, *arguments):
        self.runs += 1
        return 0 if self.made and self.message == MISSING else self.code

    def make(self, *shape, device):
        self.made.append(device)
        return self.zeros(*shape)


class OnDevice(torch.Tensor):
    """A CPU tensor that says it is on the fourth GPU."""

    is_cuda = True

    def get_device(self):
        return 3


def of_chunk_kda(monkeypatch):
    x = inputs()
    return lambda: chunk_kda(*x)


def of_a_plan(monkeypatch):
    plan = kda.Plan(
        kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64),
        kda.Options(target="sm_90a", strategy="recurrent"),
    )

    def view(name, x):
        kind = tensors._TORCH_TYPES[str(x.dtype)]
        return tensors.View(x.data_ptr(), tuple(x.shape), tuple(x.stride()), kind, x)

    monkeypatch.setattr(tensors, "_of_torch", view)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 3, raising=False)
    x = dict(zip(("q", "k", "v", "g", "beta"), (y[:, 0] for y in inputs())))
    x = {name: y.as_subclass(OnDevice) for name, y in x.items()}
    o = torch.zeros_like(x["v"])
    return lambda: plan.run(**x, o=o, workspace=1 << 20, stream=0)


def of_prefill(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(prefill, "_current_stream", lambda index: 0)
    q = torch.zeros(2, 3, 40, 64).as_subclass(OnDevice)
    beta, wy = torch.zeros(2, 3, 40), torch.zeros(2, 3, 2, 32, 64)
    return lambda: prefill._fill(q, q, q, q, beta, 32, wy, wy.clone(), torch.zeros_like(q))


@pytest.mark.parametrize("call_of", [of_chunk_kda, of_a_plan, of_prefill])
def test_a_thread_without_a_context_gets_one(launches, monkeypatch, call_of):
    call = call_of(monkeypatch)
    thread = Thread(monkeypatch)
    monkeypatch.setattr(torch, "zeros", thread.make)
    call()
    assert thread.runs == 2 and len(thread.made) == 1
    assert thread.made[0] == ("cuda:-1" if call_of is of_chunk_kda else "cuda:3")
    call()
    assert thread.runs == 3 and len(thread.made) == 1
    # What failed for another reason is not run again.
    thread.message = "the GPU fell off the bus"
    for _ in range(2):
        thread.made.clear()
        before = thread.runs
        with pytest.raises(RuntimeError, match="fell off the bus"):
            call()
        assert thread.runs == before + 1 and not thread.made
