"""Guards: what of a call's tensors makes it another call.  No GPU."""

import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import kda.torch  # noqa: E402, F401
from kda import _same  # noqa: E402


def new(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


each = pytest.mark.parametrize(
    "make", [_same._of_torch, lambda x: _same._ByHand(x).check], ids=["torch's", "by hand"]
)
OTHERS = {
    "shape": lambda: new(3, 2),
    "dimensions": lambda: new(1, 2, 3),
    "strides": lambda: new(3, 2).mT,
    "type": lambda: new(2, 3, dtype=torch.float16),
    "device": lambda: new(2, 3, device="meta"),
    "gradient": lambda: new(2, 3).requires_grad_(),
    # Bug: by hand nothing looked at it, and a remembered call read the memory, of the other sign.
    "sign": lambda: torch._neg_view(new(2, 3)),
    "class": lambda: torch.nn.Parameter(new(2, 3), requires_grad=False),
    "nothing": lambda: None,
    "an address": lambda: 6,
}


@each
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_what_differs_is_seen(make, other, mode):
    with mode():
        y = new(5)
        same = make((new(2, 3), y))
        assert same(new(2, 3), y) and same(torch.ones(2, 3), torch.ones(5))
        assert not same(OTHERS[other](), y)


@each
def test_a_tensor_may_change_and_stay_the_same_object(make):
    x = torch.nn.Parameter(new(4), requires_grad=False)
    same = make((x,))
    x.data = new(4)
    assert same(x)
    x.data = new(4, dtype=torch.float16)  # as module.half() does
    assert not same(x)


def test_torchs_own_guard_is_the_one_in_use():
    """Else calls take microseconds longer: see what torch made of TensorGuards."""
    assert _same._maker() is _same._of_torch


def test_a_guard_of_torchs_that_sees_too_little_is_not_used(monkeypatch):
    _same._maker.cache_clear()
    try:
        monkeypatch.setattr(_same, "_of_torch", lambda tensors: lambda *given: True)
        assert not _same._tells_apart(_same._of_torch)
        same = _same.guard([new(2)], gradients=False)
        assert same(new(2)) and not same(new(3))
        _same._maker.cache_clear()
        monkeypatch.setattr(_same, "_of_torch", lambda tensors: 1 // 0)
        assert _same.guard([new(2)], gradients=False)(new(2))
    finally:
        _same._maker.cache_clear()


def test_a_tensor_given_twice():
    x = new(2, 3)
    same = _same.guard([x, x], gradients=False)
    assert same(x, x) and same(x, new(2, 3)) and not same(x, new(3, 2))


def test_a_gradient_that_is_asked_for_is_another_call():
    x = new(3).requires_grad_()
    with torch.no_grad():
        careful, careless = (_same.guard([x], gradients=asked) for asked in (False, True))
        assert careful(x) and careless(x)
    assert careless(x) and not careful(x)


def test_nothing_is_kept_alive():
    x = new(3)
    seen = weakref.ref(x)
    same = _same.guard([x], gradients=False)
    del x
    assert seen() is None and same(new(3))


def test_the_latest_variants_of_a_key_stay(monkeypatch):
    known = {}
    for n in range(20):
        _same.remember(known, "key", [new(n)], n)
    assert [found for _, found in known["key"]] == list(range(19, 19 - _same.VARIANTS, -1))
    monkeypatch.setattr(_same, "ROOM", 1)
    _same.remember(known, "other", [new(1)], 1)
    assert list(known) == ["other"]
