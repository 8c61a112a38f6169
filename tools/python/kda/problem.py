"""What to compute: Problem, with the fields and defaults of kda::Problem in kda.hpp."""

from __future__ import annotations

import dataclasses
import enum
import os
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union

__all__ = ["CacheMode", "DType", "Effort", "Gate", "Index", "Options", "Problem", "StateLayout"]


class DType(enum.IntEnum):
    """Element type of a tensor."""

    f32 = 0
    bf16 = 1
    f16 = 2


class Index(enum.IntEnum):
    """Element type of cu_seqlens and of slot indices."""

    i32 = 0
    i64 = 1


class Gate(enum.IntEnum):
    """How g becomes the log decay of each key channel (always <= 0)."""

    log_decay = 0
    """g is the log decay, natural log, <= 0; -inf forgets everything."""
    softplus = 1
    """-exp(A_log) * softplus(g + dt_bias)."""
    bounded = 2
    """lower_bound * sigmoid(exp(A_log) * (g + dt_bias)), the field's "safe gate"."""
    logsigmoid = 3
    """log(sigmoid(g)): g is the logit of the decay itself."""


class StateLayout(enum.IntEnum):
    """The last two dimensions of a state."""

    key_first = 0
    """[K, V]."""
    value_first = 1
    """[V, K]."""


class Effort(enum.IntEnum):
    """Where a plan's choices may come from."""

    wisdom_only = 0
    """Use recorded measurements or raise NoWisdom; never guess."""
    estimate = 1
    """Recorded measurements, perhaps of another device of the same capability, else the cost model;
    never times anything."""
    measure = 2
    """A record of just this problem and device, else times the candidates on the device (seconds,
    and device memory for inputs) and records the winner, unless strategy or tuning is forced."""


class CacheMode(enum.IntEnum):
    """What a plan does with the directories of compiled kernels and of measurements."""

    by_environment = 0
    """What $KDA_CACHE says."""
    off = 1
    """Neither is read or written: kernels come from memory and from bundles that were added."""
    read_only = 2
    read_write = 3


Directory = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

Word = TypeVar("Word", bound=enum.IntEnum)


if TYPE_CHECKING:

    class Named(Protocol[Word]):
        """A field that takes an enumerator, its name or its number, and holds the enumerator."""

        def __get__(self, instance: Any, owner: Any = None) -> Word: ...
        def __set__(self, instance: Any, value: Union[Word, str, int]) -> None: ...

else:
    Named = Union  # of one type, which is that type


def _default(word: enum.IntEnum) -> Any:
    """Of such a field, which to a type checker is none of its values."""
    return word


def _member(kind: type[Word], field: str, value: Union[Word, str, int]) -> Word:
    """The enumerator that `value` is or names."""
    try:
        return kind[value] if isinstance(value, str) else kind(value)
    except (KeyError, ValueError):
        known = ", ".join(kind.__members__)
        raise ValueError(f"{field} = {value!r}; known: {known}") from None


_ENUMS: dict[str, type[enum.IntEnum]] = {
    "cu_seqlens_type": Index,
    "qkv_type": DType,
    "gate_type": DType,
    "beta_type": DType,
    "state_type": DType,
    "gate": Gate,
    "state_layout": StateLayout,
    "slot_index_type": Index,
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model fixes every field but the two max_ fields.

    Kernels are specialised on the former and never on T, N or cu_seqlens, so a changing batch does
    not recompile.  Enumerated fields also take their names: ``Problem(heads=16, qkv_type="f16")``.
    """

    heads: int = 0
    """H, query/key heads."""
    value_heads: int = 0
    """HV, a multiple of H; 0 means H."""
    key_dim: int = 128
    """K, 1..256."""
    value_dim: int = 128
    """V, 1..65536."""
    max_tokens: int = 0
    """Largest T of any run, over all its sequences; sizes the workspace and guides the tuning."""
    max_sequences: int = 1
    """Largest N of any run."""
    varlen: bool = False
    """Runs bring cu_seqlens; otherwise every sequence has T / N tokens."""
    cu_seqlens_type: Named[Index] = _default(Index.i64)

    qkv_type: Named[DType] = _default(DType.bf16)
    """q, k, v and o."""
    gate_type: Named[DType] = _default(DType.bf16)
    """g."""
    beta_type: Named[DType] = _default(DType.bf16)
    state_type: Named[DType] = _default(DType.f32)
    """initial_state and final_state, f32 or bf16; arithmetic is f32 either way."""

    gate: Named[Gate] = _default(Gate.bounded)
    lower_bound: float = -5.0
    """Gate.bounded only; log units per token, finite and < 0."""
    beta_is_logit: bool = True
    """Apply sigmoid to beta."""
    allow_neg_eigval: bool = False
    """Then beta is doubled, reaching (0, 2)."""
    l2norm_qk: bool = True
    """Divide each row of q and k by sqrt(sum of squares + 1e-6)."""
    scale: float = 0.0
    """Multiplies q; 0 means 1 / sqrt(K)."""

    state_layout: Named[StateLayout] = _default(StateLayout.value_first)
    initial_state: bool = False
    """Runs bring one; otherwise the state starts at zero."""
    final_state: bool = False
    """Runs want it written."""

    state_pool: bool = False
    """initial_state and final_state are pools, their slots named by index (see StatePool)."""
    slot_index_type: Named[Index] = _default(Index.i32)
    """Of the indices, num_accepted_tokens and committed_tokens."""
    draft_states: bool = False
    """Speculative decoding: keep the state after every token, each in its own slot, instead of one
    final state.  Needs state_pool and final_state."""
    checkpoint_tokens: int = 0
    """Besides the final state keep the one after each multiple of so many tokens, at least 64; 0:
    no.  Needs state_pool and final_state, and no draft_states."""
    zero_padding: bool = False
    """Write zeros to the outputs of padding; else they stay as they are.  Needs state_pool."""
    mixed_lengths: bool = False
    """varlen only; a hint, results are right for any lengths: runs pack sequences of a few tokens
    beside long ones, or one has most of the tokens.  Planned as one long sequence and others of one
    token each; short ones may be served by kernels of their own."""

    wy_chunk: int = 0
    """Dense runs without a pool may also write w and u, of chunks of 16, 32 or 64 tokens; 0: no."""

    committed_tokens: bool = False
    """Speculative decoding that computes accepted tokens again: a run writes one state a sequence,
    the one after its first `committed_tokens` (Plan.run).  Needs final_state; not with
    draft_states, checkpoint_tokens or wy_chunk."""

    beta_at_most_one: bool = False
    """Only where beta_is_logit is false: a promise that every beta lies in [0, 1].

    Without it a run may have to check that.  A beta that breaks it makes o and the final state NaN
    from its token on, o perhaps from up to 63 tokens before.  Not with allow_neg_eigval."""

    qk_normalized: bool = False
    """Only where l2norm_qk is false: a promise that q and k come normalised.

    Every row of k is zero or 1/16 to 1.0078 long; every row of q is zero or 1/64 to 1024 long, and
    so is that row times scale where scale is 1/32 or more.  Used as beta_at_most_one is; where a
    row breaks it, o and the final state are, by strategy, right or NaN as there."""

    def __post_init__(self) -> None:
        for field, kind in _ENUMS.items():
            value: Any = getattr(self, field)
            if type(value) is not kind:
                object.__setattr__(self, field, _member(kind, field, value))
        for field in _FLAGS:
            value = getattr(self, field)
            if isinstance(value, (str, bytes, float)):  # "no" is true
                raise TypeError(f"{field} = {value!r} is not a bool")
            object.__setattr__(self, field, bool(value))


_FLAGS = [f.name for f in dataclasses.fields(Problem) if isinstance(f.default, bool)]


@dataclasses.dataclass(frozen=True)
class Options:
    """How a plan is made."""

    device: int = -1
    """CUDA ordinal; -1 is the current context's device, else 0."""
    target: str = ""
    """Compile for this device instead, present or not: "sm_89", "sm_90a", "h200", ...; such a plan
    describes itself and refuses to run."""
    effort: Named[Effort] = _default(Effort.estimate)
    time_limit_seconds: float = 0.0
    """Effort.measure only: for each problem; 0 is no limit."""
    stream: int = 0
    """A CUstream; Effort.measure raises InvalidArgument while this one is being captured."""
    cache_dir: Directory = ""
    """Compiled kernels; empty: $KDA_CACHE_DIR, else the user's cache."""
    wisdom_dir: Directory = ""
    """Measurements; empty: $KDA_WISDOM_DIR, else "wisdom" in the cache's directory."""
    strategy: str = ""
    """Force the choice: "chunk", "recurrent", ...; `kda-tune list` names them."""
    tuning: str = ""
    """"chunk=32 shards=2": the named tunables are fixed, the rest chosen."""
    cache_mode: Named[CacheMode] = _default(CacheMode.by_environment)

    def __post_init__(self) -> None:
        object.__setattr__(self, "effort", _member(Effort, "effort", self.effort))
        mode = _member(CacheMode, "cache_mode", self.cache_mode)
        object.__setattr__(self, "cache_mode", mode)
