"""A tensor whose memory was freed between two like calls is refused.  No GPU.

The bug: its address is null by then, which to the library is a tensor that was not given, and a
remembered call ran without it.
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from launching import inputs  # noqa: E402

import kda  # noqa: E402
from kda import tensors  # noqa: E402
from kda.torch import chunk_kda, flash_kda_fwd, paged_kda  # noqa: E402


def freed(x):
    x.untyped_storage().resize_(0)
    assert x.data_ptr() == 0 and x.numel() > 0


@pytest.mark.parametrize("name", ["A_log", "dt_bias", "initial_state"])
def test_of_chunk_kda(launches, name):
    given = {"A_log": torch.zeros(4), "dt_bias": torch.zeros(256), "lower_bound": -5.0,
             "initial_state": torch.zeros(3, 4, 64, 32), "use_gate_in_kernel": True}  # fmt: skip
    chunk_kda(*inputs(), **given)
    freed(given[name])
    if name == "initial_state":  # of which the library knows that there is one
        with pytest.raises(AssertionError, match="initial_state is null"):
            chunk_kda(*inputs(), **given)
        return
    with pytest.raises(ValueError, match=f"^{name} is a Tensor without memory"):
        chunk_kda(*inputs(), **given)
    assert len(launches) == 1


@pytest.mark.parametrize("name", ["A_log", "dt_bias"])
def test_of_flash_kda_fwd(launches, monkeypatch, name):
    monkeypatch.setattr("kda.torch.flash._check", lambda *_: None)
    x = inputs()
    given = {"A_log": torch.zeros(4), "dt_bias": torch.zeros(4, 64), "lower_bound": -5.0}
    flash_kda_fwd(*x, 1.0, torch.empty_like(x[2]), **given)
    freed(given[name])
    with pytest.raises(ValueError, match=f"^{name} is a Tensor without memory"):
        flash_kda_fwd(*x, 1.0, torch.empty_like(x[2]), **given)
    assert len(launches) == 1


@pytest.mark.parametrize(
    "field, given",
    [
        ("initial_indices", {"initial_state_indices": (3,)}),
        ("num_accepted_tokens", {"num_accepted_tokens": (3,)}),
        ("checkpoints", {"checkpoint_indices": (3, 2)}),
        ("committed_tokens", {"committed_tokens": (3,)}),
    ],
)
def test_of_slots(launches, field, given):
    given = {name: torch.zeros(shape, dtype=torch.int64) for name, shape in given.items()}
    (last,) = given.values()
    if field == "checkpoints":
        given["checkpoint_tokens"] = 64
    slots = torch.zeros((3, 2) if field == "num_accepted_tokens" else 3, dtype=torch.int64)
    pool = torch.zeros(9, 4, 64, 32)
    for _ in range(2):
        paged_kda(*inputs(T=2), pool, slots, **given)
    freed(last)
    with pytest.raises(ValueError, match=f"^{field} is a Tensor without memory"):
        paged_kda(*inputs(T=2), pool, slots, **given)
    assert len(launches) == 2


def test_what_has_no_elements_has_no_memory(launches):
    for _ in range(2):  # the second is remembered
        chunk_kda(*inputs(T=0), initial_state=torch.zeros(3, 4, 64, 32))
    assert len(launches) == 2 and not launches[1].q


@pytest.mark.parametrize("name", ["A_log", "dt_bias"])
def test_of_a_plan(small_plan, monkeypatch, name):
    def view(field, x):  # CPU tensors pass for CUDA's
        kind = tensors._TORCH_TYPES[str(x.dtype)]
        return tensors.View(x.data_ptr(), tuple(x.shape), tuple(x.stride()), kind, x)

    monkeypatch.setattr(tensors, "_of_torch", view)
    q, k, v, g, beta = (x.flatten(0, 1) for x in inputs(T=8))
    state = torch.zeros(3, 4, 32, 64)
    run = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "o": torch.empty_like(v),
           "A_log": torch.zeros(4), "dt_bias": torch.zeros(4, 64), "initial_state": state,
           "final_state": state, "workspace": 1 << 20, "sequences": 3, "stream": 0}  # fmt: skip
    for _ in range(2):
        with pytest.raises(kda.Unsupported):  # the library's last check
            small_plan.run(**run)
    freed(run[name])
    with pytest.raises(ValueError, match=f"^{name} is a Tensor without memory"):
        small_plan.run(**run)
