"""Whether a call's torch tensors are, but for addresses and contents, those of a call before.

torch.compile's own guard asks this in one call into C++, for less than Python spends on reading the
shapes.  Where torch has none that can be relied on, `_ByHand` asks the same.  Imports no torch.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Sequence, TypeVar

__all__ = ["Known", "Same", "guard", "remember"]

Same = Callable[..., bool]
Found = TypeVar("Found")
# What calls found, by what is cheap to ask of a call; then by its tensors, the latest first.
Known = dict[Any, tuple[tuple[Same, Found], ...]]

ROOM = 4096  # keys
VARIANTS = 16  # of a key: other strides, types, devices


class _ByHand:
    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = [self._described(x) for x in tensors]

    @staticmethod
    def _described(x: Any) -> Any:
        return type(x), x.dtype, x.shape, x.stride(), x.device, x.requires_grad, x.is_neg()

    def check(self, *tensors: Any) -> bool:
        Tensor = sys.modules["torch"].Tensor
        return (
            all(isinstance(x, Tensor) for x in tensors)
            and [self._described(x) for x in tensors] == self._tensors
        )


def _of_torch(tensors: Sequence[Any]) -> Same:
    guards = sys.modules["torch"]._C._dynamo.guards
    made = guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
    check: Same = made.check
    return check


def _tells_apart(make: Callable[[Sequence[Any]], Same]) -> bool:
    """Whether guards from `make` see all that matters, shown to them once."""
    torch = sys.modules["torch"]

    def new(*shape: int, dtype: Any = torch.float32, device: str = "cpu") -> Any:
        return torch.empty(shape, dtype=dtype, device=device)

    y = new(5)
    same = make((new(2, 3), y))
    others: list[Any] = [
        new(3, 2),
        new(3, 2).mT,
        new(1, 2, 3),
        new(2, 3, dtype=torch.float16),
        new(2, 3, device="meta"),
        new(2, 3).requires_grad_(),
        torch.nn.Parameter(new(2, 3), requires_grad=False),
        torch._neg_view(new(2, 3)),
        None,
        6,
    ]
    return same(new(2, 3), y) and not any(same(other, y) for other in others)


@functools.cache
def _maker() -> Callable[[Sequence[Any]], Same]:
    try:
        with sys.modules["torch"].inference_mode(False):
            if _tells_apart(_of_torch):
                return _of_torch
    except Exception:  # private to torch: it may change as it likes
        pass
    return lambda tensors: _ByHand(tensors).check


def guard(tensors: Sequence[Any], gradients: bool) -> Same:
    """Called with as many: whether they have the classes, types, devices, shapes and strides of
    these, and need gradients or are negated lazily where these are; without `gradients` none may be
    asked for.  Keeps none alive.
    """
    same = _maker()(tensors)
    if not same(*tensors):  # torch's takes no tensor twice
        same = _ByHand(tensors).check
    if gradients or not any(x.requires_grad for x in tensors):
        return same
    asked_for = sys.modules["torch"].is_grad_enabled
    return lambda *given: not asked_for() and same(*given)


def remember(
    known: Known[Found], key: Any, tensors: Sequence[Any], found: Found, gradients: bool = False
) -> None:
    """Of a key the latest variants stay.  Threads may do so at once: one's entry may be lost."""
    others = known.get(key, ())
    if len(known) >= ROOM:
        known.clear()
    known[key] = ((guard(tensors, gradients), found), *others[: VARIANTS - 1])
