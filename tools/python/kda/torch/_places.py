"""Places that patch_fla puts functions in, and what lies there over what."""

from __future__ import annotations

import functools
import weakref
from types import FunctionType
from typing import Any, Callable, Iterator, NamedTuple, Optional

Words = tuple[bool, bool]  # of patch_fla: fallback, beta_at_most_one


class Place(NamedTuple):
    """Where setattr puts a function."""

    holder: Any  # a module, a class, a layer or a closure's cell
    attribute: str
    name: str  # for people


class Laid(NamedTuple):
    """A function at a place."""

    value: Any
    patch: object = None  # whose it is; None: FLA's, which lay there first
    words: Optional[Words] = None


class _Pile(NamedTuple):
    holder: Callable[[], Any]
    laid: list[Laid]  # FLA's, then the patches' in their order


_piles: dict[tuple[int, str], _Pile] = {}  # by the holder's id


def _weak(holder: Any, key: tuple[int, str]) -> Callable[[], Any]:
    """No layer lives longer for having been patched."""
    try:
        return weakref.ref(holder, lambda _: _piles.pop(key, None))
    except TypeError:  # a cell; it holds our function alone
        return lambda: holder


def mark(ours: Any, theirs: Any, laid: Laid) -> None:
    """For modules that take it from where it lies: they have no pile of their own."""
    ours.__kda_replaces__ = theirs, laid


def _marked(value: Any) -> Optional[list[Laid]]:
    if type(value) not in (FunctionType, functools.partial):
        return None
    theirs, laid = getattr(value, "__kda_replaces__", (None, None))
    if laid is not None and laid.value is value:  # and no wrapper that copied the attribute
        return [Laid(theirs), laid]
    under = _marked(value.func) if type(value) is functools.partial else None
    if under is None:
        return None
    theirs = functools.partial(under[0].value, *value.args, **value.keywords)
    return [Laid(theirs), under[1]._replace(value=value)]


def pile_at(place: Place, value: Any) -> Optional[list[Laid]]:
    """FLA's function, and over it those of patches up to `value`; None: that is no patch's."""
    pile = _piles.get((id(place.holder), place.attribute))
    if pile is not None and pile.laid[-1].value is value:
        return pile.laid
    return _marked(value)


def lay(place: Place, under: list[Laid], laid: Laid) -> None:
    """Over the pile that is there."""
    setattr(place.holder, place.attribute, laid.value)
    key = id(place.holder), place.attribute
    _piles[key] = _Pile(_weak(place.holder, key), [*under, laid])


def lift(patch: object) -> Iterator[tuple[Any, Any]]:
    """Takes away what the patch laid and all over that: each value, and what is there now."""
    for key, pile in list(_piles.items()):
        at = next((i for i, laid in enumerate(pile.laid) if laid.patch is patch), None)
        holder = pile.holder()
        if at is None or holder is None:
            continue
        back = pile.laid[at - 1].value
        setattr(holder, key[1], back)
        yield from [(laid.value, back) for laid in pile.laid[at:]]
        del pile.laid[at:]
        if at == 1:
            del _piles[key]
