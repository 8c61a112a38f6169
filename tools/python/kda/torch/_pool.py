"""The part of a call that names slots of a state pool: its checks and its part of kda_forward."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from kda import _abi
from kda.tensors import check_memory, null_of
from kda.torch._tensors import INDICES, check_written


class Paging(NamedTuple):
    """What a call does with its slots, beside their numbers."""

    checkpoint_tokens: int = 0  # 0: none
    zero_padding: bool = False
    mixed_lengths: bool = False


class Slots(NamedTuple):
    """Slot numbers on the device; negative ones are padding or nothing."""

    indices: Tensor  # [N or more] or [N or more, columns]; more than one column: after every token
    initial_indices: Optional[Tensor]  # [N]
    num_accepted_tokens: Optional[Tensor]  # [N]
    checkpoints: Optional[Tensor]  # [N, columns]
    committed_tokens: Optional[Tensor] = None  # [N], tokens and no slots, but of their type


def problem_words(paging: Paging, slots: Slots) -> dict[str, Any]:
    """The fields of Problem that speak of pools."""
    return {
        "state_pool": True,
        "slot_index_type": INDICES[slots.indices.dtype],
        "draft_states": slots.indices.dim() == 2 and slots.indices.shape[1] > 1,
        "checkpoint_tokens": paging.checkpoint_tokens,
        "zero_padding": paging.zero_padding,
        "mixed_lengths": paging.mixed_lengths,
        "committed_tokens": slots.committed_tokens is not None,
    }


def check_type(pool: Tensor) -> None:
    if pool.dtype not in (torch.float32, torch.bfloat16):
        raise NotImplementedError(
            f"the state pool is {pool.dtype}; kda keeps states in float32 or bfloat16"
        )


def check_shape(pool: Tensor, states: tuple[int, ...]) -> None:
    _, HV, *inner = states
    if pool.dim() != 4 or list(pool.shape[1:]) != [HV, *inner]:
        raise ValueError(
            f"the state pool is {list(pool.shape)}; it is [slots, {HV}, {inner[0]}, {inner[1]}]"
        )


def check_slots(slots: Slots, device: torch.device, sequences: int, traced: bool = False) -> None:
    """Of a pool on that device.  What is traced has no memory yet; the operator looks at it."""
    for name, x in zip(Slots._fields, slots):
        if x is None:
            continue
        if x.device != device:
            raise ValueError(f"{name} is on {x.device} and the pool on {device}")
        if not traced:
            check_memory(name, x)
        if x.dtype not in INDICES:
            what = "counts" if name == "committed_tokens" else "slot indices"
            raise ValueError(f"{name} is {x.dtype}; {what} are int32 or int64")
        table = name in ("indices", "checkpoints")
        fits = x.dim() in ((1, 2) if table else (1,))
        if name == "indices":  # of which engines have more rows, that nothing reads
            fits = fits and x.shape[0] >= sequences
        else:
            fits = fits and x.shape[0] == sequences
        if not fits:
            shape = "[N] or [N, columns]" if table else "[N]"
            raise ValueError(f"{name} is {list(x.shape)}; it is {shape} with N = {sequences}")
    if slots.indices.dim() == 2 and slots.indices.shape[1] == 0:
        raise ValueError(
            f"indices are {list(slots.indices.shape)}; each sequence has a slot, so they have a "
            "column or more"
        )
    if slots.num_accepted_tokens is not None and slots.indices.dim() != 2:
        raise ValueError(
            f"num_accepted_tokens needs a table of slots, one for the state after each token; "
            f"indices are {list(slots.indices.shape)}, not [N, columns]"
        )


def check(paging: Paging, pool: Tensor, slots: Slots, states: tuple[int, ...]) -> None:
    """What the library cannot see of its pointers."""
    check_type(pool)
    check_shape(pool, states)
    check_written("the state pool", pool)
    if pool.shape[0] > 0 and not pool[0].is_contiguous():
        raise ValueError(
            f"the state pool has strides {list(pool.stride())}; each slot must be contiguous"
        )
    if pool.shape[0] > 1 and pool.stride(0) == 0:  # which the library takes for contiguous
        raise ValueError(
            f"the state pool has strides {list(pool.stride())}, one slot's memory for all; each slot "
            "needs its own"
        )
    check_slots(slots, pool.device, states[0])
    choose = slots.num_accepted_tokens is not None and slots.initial_indices is not None
    if choose and slots.indices.shape[1] == 1:
        raise ValueError(
            f"num_accepted_tokens and initial_indices are given and indices are "
            f"{list(slots.indices.shape)}; with one column leave one of the two out, or give a "
            "column for each token"
        )
    if slots.committed_tokens is not None:
        need_one_slot(slots.indices)
        if paging.checkpoint_tokens > 0:
            raise ValueError(
                f"committed_tokens is given and checkpoint_tokens = {paging.checkpoint_tokens}; a "
                "checkpoint may know tokens that are not committed, so give one of them"
            )
    if (slots.checkpoints is not None) != (paging.checkpoint_tokens > 0):
        given = "missing" if slots.checkpoints is None else "given"
        raise ValueError(
            f"checkpoints are {given} and checkpoint_tokens = {paging.checkpoint_tokens}"
        )


def need_one_slot(indices: Tensor) -> None:
    """With committed_tokens."""
    if indices.dim() == 2 and indices.shape[1] > 1:
        raise ValueError(
            f"committed_tokens is given and indices are {list(indices.shape)}, slots for the state "
            "after every token; with committed_tokens one state a sequence is kept, so indices are "
            "[N]"
        )


def repaired(slots: tuple[Any, ...]) -> Slots:
    """With copies of what the library would refuse for its type or its strides, or read with the
    wrong sign; and without the accepted tokens of a table of one column, the start whatever they
    are.
    """
    if slots[2] is not None and slots[0].shape[1:] == (1,):
        slots = (*slots[:2], None, *slots[3:])
    kind = slots[0].dtype

    def plain(x: Optional[Tensor]) -> Optional[Tensor]:
        if x is None:
            return None
        x = x.resolve_neg()
        if x.dtype != kind:  # past the end stays there
            x = (x.clamp(-1, 2**31 - 1) if kind is torch.int32 else x).to(kind)
        rows = x.dim() == 1 or (x.stride(1) == 1 and x.stride(0) >= x.shape[1])
        return x if rows and (x.dim() == 2 or x.stride(0) == 1) else x.contiguous()

    indices, *others = map(plain, slots)
    assert indices is not None
    return Slots(indices, *others)


def need_copies(slots: Slots) -> bool:
    """Whether `repaired` changes anything."""
    return any(a is not b for a, b in zip(slots, repaired(slots)))


def _apart(x: Tensor) -> int:
    """From slot to slot or row to row; of a single one torch may say anything."""
    return x.stride(0) if x.shape[0] > 1 else 0


def fill(raw: _abi.StatePool, pool: Tensor, slots: Slots) -> None:
    """All of kda_state_pool but its pointers; slots as `repaired` leaves them."""
    raw.slots, raw.stride = pool.shape[0], _apart(pool)
    for name, x in (("indices", slots.indices), ("checkpoints", slots.checkpoints)):
        table = getattr(raw, name)
        table.columns, table.stride = 1, 0
        if x is not None and x.dim() == 2:
            table.columns, table.stride = x.shape[1], _apart(x)


def tail(f: _abi.PooledTail, slots: tuple[Any, ...]) -> bytes:
    """The end of a kda_forward for these slots."""
    indices, initial, accepted, checkpoints, committed = slots
    return f.pack(
        f.head,
        indices.data_ptr(),
        f.table,
        0 if initial is None else initial.data_ptr() or null_of("initial_indices", initial),
        0 if accepted is None else accepted.data_ptr() or null_of("num_accepted_tokens", accepted),
        0 if checkpoints is None else checkpoints.data_ptr() or null_of("checkpoints", checkpoints),
        f.tail,
        0 if committed is None else committed.data_ptr() or null_of("committed_tokens", committed),
    )
