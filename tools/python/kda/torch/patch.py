"""Swaps FLA's KDA calls for ours inside what is already loaded."""

from __future__ import annotations

import functools
import sys
import warnings
from types import FunctionType, ModuleType, TracebackType
from typing import Any, Callable, Iterator, Optional

import torch

from kda.torch.fla import chunk_kda, fused_recurrent_kda

OURS: dict[str, Callable[..., Any]] = {
    "chunk_kda": chunk_kda,
    "fused_recurrent_kda": fused_recurrent_kda,
}


def _is_flas(value: Any, name: str) -> bool:
    # FLA's are plain functions, wrapped ones too.  Others are asked for nothing, not even by
    # isinstance: a proxy such as flask.request may raise whatever it is asked for.
    return (
        type(value) is FunctionType
        and value.__name__ == name
        and str(value.__module__).split(".")[0] == "fla"
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

    call.__kda_replaces__ = theirs  # type: ignore[attr-defined]
    return call


def _modules_of(model: torch.nn.Module) -> Iterator[ModuleType]:
    """Where the classes of the model's layers were defined, each module once."""
    names = {base.__module__ for layer in model.modules() for base in type(layer).__mro__}
    for name in sorted(names):
        if name in sys.modules and name.split(".")[0] != "torch":
            yield sys.modules[name]


class Patch:
    """What was replaced, as "module.name".  `undo`, or leaving `with`, puts it back."""

    def __init__(self) -> None:
        self.replaced: list[str] = []
        self._saved: list[tuple[ModuleType, str, Any]] = []

    def _swap(
        self, module: ModuleType, name: str, fallback: bool, beta_at_most_one: bool
    ) -> None:
        theirs = vars(module)[name]
        ours = OURS[_public_name(theirs)]
        if beta_at_most_one:
            ours = functools.partial(ours, beta_at_most_one=True)
        if fallback:
            ours = _with_fallback(_public_name(theirs), ours, theirs)
        setattr(module, name, ours)
        self._saved.append((module, name, theirs))
        self.replaced.append(f"{module.__name__}.{name}")

    def undo(self) -> None:
        """Puts FLA's functions back."""
        while self._saved:
            module, name, theirs = self._saved.pop()
            setattr(module, name, theirs)

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


def _public_name(function: Any) -> str:
    return str(function.__name__)


def patch_fla(
    model: Optional[torch.nn.Module] = None,
    *,
    fallback: bool = True,
    beta_at_most_one: bool = False,
) -> Patch:
    """Replaces FLA's ``chunk_kda`` and ``fused_recurrent_kda`` where a loaded model calls them.

    With a `model` in the modules that define its layers; without one in every module loaded so far.
    Other models built from the same modules are patched too.  Where ours raises NotImplementedError
    (gradients, say) FLA's runs, with a warning once a reason; ``fallback=False`` lets it raise.
    In a compiled model that is decided while it is traced, and breaks the graph there: what is found
    later, that no kernel serves the sizes (:class:`kda.Unsupported`), raises.
    ``beta_at_most_one=True`` says that where the model passes beta activated it is a sigmoid, not
    twice one (:func:`kda.torch.chunk_kda`).

    >>> print(kda.torch.patch_fla(model))
    kda replaced fla.layers.kda.chunk_kda, fla.layers.kda.fused_recurrent_kda
    """
    modules = list(sys.modules.values()) if model is None else list(_modules_of(model))
    patch = Patch()
    try:
        for module in modules:
            # By its type, as a proxy's __class__ may raise too.
            if not issubclass(type(module), ModuleType) or module.__name__.split(".")[0] == "kda":
                continue
            for name, value in list(vars(module).items()):
                if any(_is_flas(value, known) for known in OURS) and not hasattr(
                    value, "__kda_replaces__"
                ):
                    patch._swap(module, name, fallback, beta_at_most_one)
    except BaseException:
        patch.undo()  # the caller gets no Patch to do it with
        raise
    return patch
