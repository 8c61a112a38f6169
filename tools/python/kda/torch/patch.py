"""Swaps FLA's KDA calls for ours inside what is already loaded."""

from __future__ import annotations

import functools
import sys
import warnings
from types import FunctionType, ModuleType, TracebackType
from typing import Any, Callable, Iterable, Iterator, Optional

import torch

from kda.torch._places import Laid, Place, Words, lay, lift, mark, pile_at
from kda.torch.fla import chunk_kda, fused_recurrent_kda

OURS: dict[str, Callable[..., Any]] = {
    "chunk_kda": chunk_kda,
    "fused_recurrent_kda": fused_recurrent_kda,
}


# Values are asked for nothing but their type until that is known, not even by isinstance: a proxy
# such as flask.request may raise whatever it is asked for.


def _root(function: FunctionType) -> str:
    return str(function.__module__).split(".")[0]


def _inner(value: Any) -> Any:
    """What a functools.partial is of."""
    while type(value) is functools.partial:
        value = value.func
    return value


def _is_flas(value: Any) -> bool:
    function = _inner(value)  # FLA's are plain functions, wrapped ones too
    return (
        type(function) is FunctionType
        and function.__name__ in OURS
        and _root(function) == "fla"
        and not hasattr(function, "__kda_replaces__")
    )


def _is_ours(value: Any) -> bool:
    function = _inner(value)
    return type(function) is FunctionType and (
        hasattr(function, "__kda_replaces__") or any(function is ours for ours in OURS.values())
    )


def _with_fallback(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any]
) -> Callable[..., Any]:
    """Ours; FLA's own where ours is not there yet, saying so once a reason."""
    said: set[str] = set()

    @functools.wraps(theirs, updated=())  # not its attributes: FLA's turn torch.compile away
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except NotImplementedError as error:
            reason = str(error)
            if reason not in said:
                said.add(reason)
                warnings.warn(f"FLA's {name} runs instead of kda's: {reason}", stacklevel=2)
        return theirs(*args, **kwargs)

    call.__kda_replaces__ = theirs, None  # type: ignore[attr-defined]
    return call


def _ours_for(theirs: Any, words: Words) -> Any:
    if type(theirs) is functools.partial:
        ours = _ours_for(theirs.func, words)
        return functools.partial(ours, *theirs.args, **theirs.keywords)
    fallback, beta_at_most_one = words
    name = str(theirs.__name__)
    ours = OURS[name]
    if beta_at_most_one:
        ours = functools.partial(ours, beta_at_most_one=True)
    return _with_fallback(name, ours, theirs) if fallback else ours


_Held = tuple[Place, Any]  # and what lies there


def _names_of(holder: Any, name: str) -> list[_Held]:
    return [(Place(holder, key, f"{name}.{key}"), x) for key, x in list(vars(holder).items())]


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """Those that a call of this function or layer goes through."""
    value = _inner(value)
    kind = type(value)
    if issubclass(kind, torch.nn.Module):
        value = kind
    if kind is FunctionType:
        yield value
    elif issubclass(type(value), type) and issubclass(value, torch.nn.Module):
        yield from [x for x in vars(value).values() if type(x) is FunctionType]


def _cells_of(function: FunctionType, name: str) -> Iterator[_Held]:
    # FLA's hold each other, for their own calls, and ours hold FLA's, to fall back on.
    if _root(function) in ("fla", "kda"):
        return
    for cell in function.__closure__ or ():
        try:
            yield Place(cell, "cell_contents", name), cell.cell_contents
        except ValueError:  # it is empty
            pass


def _with_cells(held: Iterable[_Held]) -> Iterator[_Held]:
    """These, and what the closures of their functions hold, as a decorator's wrapper does."""
    seen: set[int] = set()
    for place, value in held:
        yield place, value
        ahead = [value]
        while ahead:
            for function in _functions_of(ahead.pop()):
                if id(function) in seen:
                    continue
                seen.add(id(function))
                for cell in _cells_of(function, place.name):
                    yield cell
                    ahead.append(cell[1])


def _held_by(modules: Iterable[Any]) -> Iterator[_Held]:
    for module in modules:
        # By its type, as a proxy's __class__ may raise too.
        if issubclass(type(module), ModuleType) and module.__name__.split(".")[0] != "kda":
            yield from _names_of(module, module.__name__)


def _held_by_model(model: torch.nn.Module) -> Iterator[_Held]:
    """By the modules that define its layers, by their classes and by the layers themselves."""
    kinds = {kind for layer in model.modules() for kind in type(layer).__mro__}
    shown = {kind: f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    shown = {k: n for k, n in shown.items() if n.split(".")[0] not in ("torch", "builtins")}
    names = sorted({str(kind.__module__) for kind in shown})
    yield from _held_by(sys.modules[name] for name in names if name in sys.modules)
    for kind in sorted(shown, key=shown.__getitem__):
        yield from _names_of(kind, shown[kind])
    for layer in model.modules():
        if type(layer) in shown:
            yield from _names_of(layer, shown[type(layer)])


class Patch:
    """What was replaced, as "module.name"; what a closure holds goes by its function's name.

    `undo`, or leaving `with`, puts it back.
    """

    def __init__(self) -> None:
        self.replaced: list[str] = []
        self._made: list[tuple[Any, Any]] = []  # ours and theirs

    def _swap(self, place: Place, under: list[Laid], words: Words) -> None:
        theirs = under[0].value
        ours = _ours_for(theirs, words)
        laid = Laid(ours, self, words)
        lay(place, under, laid)
        if all(ours is not known for known in OURS.values()):  # else others may hold it, too
            mark(ours, theirs, laid)
            self._made.append((ours, theirs))
        if place.name not in self.replaced:
            self.replaced.append(place.name)

    def undo(self) -> None:
        """Puts FLA's functions back, also in modules that were loaded since and took ours.

        With ``fallback=False`` those modules hold :func:`kda.torch.chunk_kda` itself, as others may
        by right, so they keep it.  Where this patch replaced an earlier one's functions, the
        earlier one's come back; if the earlier is undone first, FLA's do.
        """
        back = {id(ours): theirs for ours, theirs in self._made}
        shared = {id(known) for known in OURS.values()}
        back.update({id(x): now for x, now in lift(self) if not {id(x), id(now)} & shared})
        if back:
            for place, value in _with_cells(_held_by(list(sys.modules.values()))):
                if id(value) in back:
                    setattr(place.holder, place.attribute, back[id(value)])
        self._made.clear()

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.undo()

    def __str__(self) -> str:
        if not self.replaced:
            return "kda replaced nothing: no call of FLA's KDA was found"
        return "kda replaced " + ", ".join(self.replaced)

    __repr__ = __str__


def patch_fla(
    model: Optional[torch.nn.Module] = None,
    *,
    fallback: bool = True,
    beta_at_most_one: bool = False,
) -> Patch:
    """Replaces FLA's ``chunk_kda`` and ``fused_recurrent_kda`` where a loaded model calls them.

    Looks in the modules that define the layers of `model`, or in every loaded module without one,
    by name and in closures, where decorators such as transformers' keep functions.  Other models
    built from the same modules are patched too.  Warns where it finds neither FLA's functions nor
    ours.

    Where ours raises NotImplementedError (for gradients, say), FLA's runs instead, and warns once
    for each reason; with ``fallback=False`` the error is raised.  In a compiled model that is
    decided during tracing, and breaks the graph there; what only shows later, that no kernel serves
    the sizes (:class:`kda.Unsupported`), is raised.
    ``beta_at_most_one=True`` promises that a beta that the model passes activated is a sigmoid, not
    twice one (:func:`kda.torch.chunk_kda`).
    Patching again with other arguments replaces those of the earlier call.

    >>> print(kda.torch.patch_fla(model))
    kda replaced fla.layers.kda.chunk_kda, fla.layers.kda.fused_recurrent_kda
    """
    held = _held_by(list(sys.modules.values())) if model is None else _held_by_model(model)
    patch, already = Patch(), False
    words = bool(fallback), bool(beta_at_most_one)
    try:
        for place, value in _with_cells(held):
            if _is_flas(value):
                patch._swap(place, [Laid(value)], words)
            elif _is_ours(value):
                already = True
                under = pile_at(place, value)
                if under is not None and under[-1].words != words:
                    patch._swap(place, under, words)
    except BaseException:
        patch.undo()  # the caller gets no Patch to do it with
        raise
    if not patch.replaced and not already:
        warnings.warn(str(patch), stacklevel=2)
    return patch
