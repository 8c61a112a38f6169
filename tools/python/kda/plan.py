"""Plan: made once for a Problem, run many times."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Iterable, Mapping, NoReturn, Optional

from kda import _abi, errors
from kda._fields import fill
from kda._library import load_packaged_nvrtc
from kda._run import (
    StatePool,
    context_was_missing,
    device_apart,
    first_stream,
    forward_of,
    is_plain_torch,
    stream_of,
    torch_device,
    workspace_of,
)
from kda._same import Known, remember
from kda._streams import go_after
from kda.problem import Options, Problem
from kda.tensors import null_of

__all__ = ["Plan", "supports"]

_NO_STREAMS: Mapping[int, str] = {}


def _problem_of(problem: Problem) -> _abi.Problem:
    raw = _abi.problem()
    fill(raw, problem, errors.InvalidProblem)
    return raw


def _options_of(options: Options) -> _abi.Options:
    raw = _abi.options()
    fill(raw, options, errors.InvalidArgument)
    return raw


def _plain(raw: _abi.Problem) -> Problem:
    return Problem(**{field[0]: getattr(raw, field[0]) for field in raw._fields_[1:]})


def supports(problem: Problem, options: Options = Options()) -> bool:
    """Whether some strategy covers the problem on the device.  Compiles nothing.

    Raises InvalidProblem where the problem contradicts itself, InvalidArgument where an option is
    wrong, and DeviceError where neither a driver nor Options.target is there.
    """
    code = _abi.library().kda_supports(_problem_of(problem), _options_of(options))
    if code and _abi.CODES[code] is errors.Unsupported:
        return False
    _abi.check(code)
    return True


def _raw_or_reason(problem: Problem) -> _abi.Problem | errors.Error:
    try:
        return _problem_of(problem)
    except errors.InvalidProblem as error:
        return error.with_traceback(None)  # whose frames would live as long as it


def _made_once(problems: list[Problem], options: Options) -> list[int | errors.Error]:
    read = [_raw_or_reason(problem) for problem in problems]
    raws = [raw for raw in read if isinstance(raw, _abi.Problem)]
    made = iter(_made_of(raws, options))
    return [x if isinstance(x, errors.Error) else next(made) for x in read]


def _made_of(raws: list[_abi.Problem], options: Options) -> list[int | errors.Error]:
    lib, count = _abi.library(), len(raws)
    plans = (ctypes.c_void_p * count)()
    codes = (ctypes.c_int32 * count)()
    pointers = (ctypes.POINTER(_abi.Problem) * count)(*(ctypes.pointer(raw) for raw in raws))
    lib.kda_plan_make_all(pointers, count, _options_of(options), plans, codes)
    made: list[int | errors.Error] = []
    for raw, handle, code in zip(raws, plans, codes):
        if handle:
            made.append(handle)
            continue
        if count > 1:  # the message at hand is that of the first failure alone
            again = ctypes.c_void_p()
            code = lib.kda_plan_make(raw, _options_of(options), again)
            if again.value:
                made.append(again.value)
                continue
        made.append(_abi.error_of(code))
    return made


def _made(problems: list[Problem], options: Options) -> list[int | errors.Error]:
    """Handles or reasons; where libkda finds no NVRTC, again with one of Python's packages."""
    made = _made_once(problems, options)
    for i, x in enumerate(made):
        if isinstance(x, errors.CompileError) and "no usable NVRTC" in str(x):
            if load_packaged_nvrtc():
                (made[i],) = _made_once([problems[i]], options)
            elif not os.environ.get("KDA_NVRTC_PATH"):  # else no other is looked for
                made[i] = errors.CompileError(f"{x}\nor: pip install nvidia-cuda-nvrtc")
    return made


class Plan:
    """Immutable; any number of threads may run one at once, each with its own workspace.

    Keep it until its runs have ended, and as long as a CUDA graph that captured one is replayed.

    >>> plan = kda.Plan(kda.Problem(heads=16, max_tokens=8192), kda.Options(target="h200"))
    >>> print(plan.describe())
    """

    def __init__(self, problem: Problem, options: Options = Options()) -> None:
        """Chooses, composes, compiles (or finds in the cache) and loads the kernels.  Blocks."""
        (made,) = _made([problem], options)
        if isinstance(made, errors.Error):
            raise made
        self._own(made)

    @classmethod
    def make_all(
        cls, problems: Iterable[Problem], options: Options = Options()
    ) -> list[Plan | errors.Error]:
        """The same for several problems; their kernels compile in parallel and equal ones once.

        In the place of a plan that could not be made stands the reason.
        """
        plans: list[Plan | errors.Error] = []
        for made in _made(list(problems), options):
            if isinstance(made, errors.Error):
                plans.append(made)
                continue
            plan = cls.__new__(cls)
            plan._own(made)
            plans.append(plan)
        return plans

    def _own(self, handle: int) -> None:
        self._handle: Optional[int] = handle
        self._lib = _abi.library()
        raw = _abi.problem()
        _abi.check(self._lib.kda_plan_problem(handle, raw))
        self._problem = _plain(raw)
        self._checked: Known[_abi.Form] = {}
        self._workspace_bytes: int = self._lib.kda_plan_workspace_bytes(handle)

    def __del__(self) -> None:
        # At exit the driver may be gone before us, and takes its memory along.
        if getattr(self, "_handle", None) and not sys.is_finalizing():
            self._lib.kda_plan_destroy(self._handle)
            self._handle = None

    def __copy__(self) -> Plan:
        return self  # two owners would destroy the handle twice

    def __deepcopy__(self, memo: Any) -> Plan:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a kda.Plan cannot be pickled: its kernels are loaded in this process; pickle "
            "plan.problem and make the plan again, kda.Plan(problem, options), which compiles "
            "nothing where the disk cache has its kernels"
        )

    @property
    def problem(self) -> Problem:
        """As given, with defaults filled in (value_heads, scale).

        beta_at_most_one is False where beta_is_logit is True, and qk_normalized where l2norm_qk is,
        as they say nothing there.
        """
        return self._problem

    @property
    def workspace_bytes(self) -> int:
        """Bytes of device memory that a run needs, at an address that is a multiple of 256.

        The contents need no initialising and mean nothing between runs.
        """
        return self._workspace_bytes

    @property
    def handle(self) -> int:
        """The kda_plan*, for C; it lives as long as this object."""
        assert self._handle is not None
        return self._handle

    def describe(self) -> str:
        """For people: strategy, tuning, where the choice came from, what each kernel needs."""
        text: bytes = self._lib.kda_plan_describe(self._handle)
        return text.decode()

    def __repr__(self) -> str:
        return f"<kda.Plan of {self._problem}>"

    def run(
        self,
        *,
        q: Any,
        k: Any,
        v: Any,
        g: Any,
        beta: Any,
        o: Any,
        A_log: Any = None,
        dt_bias: Any = None,
        initial_state: Any = None,
        final_state: Any = None,
        cu_seqlens: Any = None,
        pool: Optional[StatePool] = None,
        w: Any = None,
        u: Any = None,
        committed_tokens: Any = None,
        sequences: Optional[int] = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None:
        """Enqueues the kernels on the stream and returns; `o` and `final_state` are written.

        With Problem.wy_chunk = C also `w` [N, HV, Nc, C, K] and `u` [N, HV, Nc, C, V], where given.
        With Problem.committed_tokens the final state of sequence n is the one after its first
        `committed_tokens` [N], of Problem.slot_index_type; None: all.

        Every tensor may be of torch or of any framework that speaks ``__cuda_array_interface__`` or
        DLPack; none is copied, so channels must lie side by side.  ``q``, ``k`` are
        [T, H, K], ``v``, ``o`` [T, HV, V], ``g`` [T, HV, K], ``beta`` [T, HV], or the same with the
        sequences apart, [N, T / N, ...].  Of [T, ...] without cu_seqlens, `sequences` says how many
        there are.

        Without a `workspace` torch's allocator gives one on the run's stream if q is a torch
        tensor; otherwise it must be given, unless workspace_bytes is 0.  Without a `stream` the run
        goes on torch's current one if q is a torch tensor, else on the first that a tensor's
        ``__cuda_array_interface__`` names, else on the default stream.  It waits for what has been
        enqueued so far on the other streams that these interfaces name; to order later work behind
        the run is up to the caller.  Torch tensors may be on another than the current device.
        Autograd is told nothing: no gradient is refused, and no tensor's version counter says that
        it was written.
        """
        tensors = (cu_seqlens, q, k, v, g, beta, A_log, dt_bias, initial_state, o, final_state)
        queue = stream_of(stream, q)
        if queue is None:
            others = w, u, committed_tokens
            queue = first_stream(dict(zip(_abi.POINTERS, tensors)), pool, others, workspace)
        # Torch's tensors are checked once for their shapes, strides and types.
        keep: Any = tensors
        key = form = None
        streams = _NO_STREAMS
        plain = pool is None and w is None and u is None and committed_tokens is None
        if plain and is_plain_torch(q):
            in_place = final_state is initial_state  # a guard takes no tensor twice
            there = [x for x in (tensors[:-1] if in_place else tensors) if x is not None]
            key = (
                sequences, q.shape, len(there), in_place, cu_seqlens is None, A_log is None,
                dt_bias is None, initial_state is None,
            )  # fmt: skip
            for same, known in self._checked.get(key, ()):
                if same(*there):
                    form = known
                    break
        if form is not None:
            forward = form.pack(
                form.head,
                0 if cu_seqlens is None else cu_seqlens.data_ptr(),
                q.data_ptr(),
                k.data_ptr(),
                v.data_ptr(),
                g.data_ptr(),
                beta.data_ptr(),
                0 if A_log is None else A_log.data_ptr() or null_of("A_log", A_log),
                0 if dt_bias is None else dt_bias.data_ptr() or null_of("dt_bias", dt_bias),
                0 if initial_state is None else initial_state.data_ptr(),
                o.data_ptr(),
                0 if final_state is None else final_state.data_ptr(),
                form.tail,
            )
        else:
            others = w, u, committed_tokens
            raw, keep, streams = forward_of(self._problem, tensors, pool, sequences, queue, others)
            forward = bytes(raw)
            if key is not None and all(map(is_plain_torch, there)):
                remember(self._checked, key, there, _abi.form(raw), gradients=True)
        apart = device_apart(q)
        if apart is None:
            self._launch(forward, streams, workspace, q, queue)
        else:  # a stream's number, 0 above all, means one of the current device
            with sys.modules["torch"].cuda.device(apart):
                self._launch(forward, streams, workspace, q, queue)
        del keep  # lived until the kernels were enqueued

    def _launch(
        self, forward: bytes, streams: Mapping[int, str], workspace: Any, q: Any, queue: int
    ) -> None:
        memory, size, owner, stream = workspace_of(workspace, self._workspace_bytes, q, queue)
        if stream is not None:
            streams = {stream: "workspace", **streams}
        if streams:
            for first, name in streams.items():
                if first != queue:
                    go_after(queue, first, name)
        code = self._lib.kda_plan_run(self._handle, forward, memory, size, queue)
        if code:
            index = torch_device(q)
            if index is not None and context_was_missing(index):
                code = self._lib.kda_plan_run(self._handle, forward, memory, size, queue)
            _abi.check(code)
        del owner  # lived until the kernels were enqueued
