"""A call like one before skips its checks; what makes it another call must not.  No GPU."""

import contextlib
import ctypes
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from launching import inputs  # noqa: E402
from support import Array, Exporter  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import kda  # noqa: E402
from kda import _abi, tensors  # noqa: E402
from kda.torch import (  # noqa: E402
    _call,
    _ops,
    _tensors,
    chunk_kda,
    flash,
    flash_kda_fwd,
    fused_recurrent_kda,
    fused_recurrent_kda_fwd,
    paged_kda,
)

POOL = torch.zeros(9, 4, 64, 32)
SLOTS = torch.tensor([4, -1, 7], dtype=torch.int32)


def through_flash(q, k, v, g, beta, A_log=None, dt_bias=None, initial_state=None):
    out = torch.empty(v.shape, dtype=q.dtype)
    if A_log is None:
        A_log, dt_bias = torch.zeros(4), torch.zeros(4, 64)
    flash_kda_fwd(q, k, v, g, beta, 1.0, out, A_log, dt_bias, -5.0, initial_state)
    return out


CALLS = {
    "chunk_kda": chunk_kda,
    "fused_recurrent_kda": fused_recurrent_kda,
    "fused_recurrent_kda_fwd": lambda *x, **words: fused_recurrent_kda_fwd(
        *x, initial_state=POOL, ssm_state_indices=SLOTS, **words
    ),
    "paged_kda": lambda *x, **words: paged_kda(*x, POOL, SLOTS, **words),
    "flash_kda_fwd": through_flash,
}
each = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def prepared(launches, monkeypatch):
    """Counts the calls that were not remembered."""
    made, prepare = [], _call.prepare
    monkeypatch.setattr(_call, "prepare", lambda *x: made.append(x) or prepare(*x))
    monkeypatch.setattr(flash, "_check", lambda *_: None)
    launches.prepared = made
    return launches


@each
def test_a_second_call_is_remembered(prepared, call):
    call(*inputs())
    x = inputs()
    call(*x)
    assert len(prepared.prepared) == 1
    f = prepared[1]
    assert [f.q, f.k, f.v, f.g, f.beta] == [y.data_ptr() for y in x]


@each
@pytest.mark.parametrize("n, name", list(enumerate(("q", "k", "v", "g", "beta"))))
def test_other_strides_are_another_call(prepared, call, n, name):
    x = list(inputs())
    call(*x)
    shape = list(x[n].shape)
    shape[2] += 3
    x[n] = torch.zeros(shape, dtype=torch.bfloat16)[:, :, : shape[2] - 3]
    call(*x)
    strides = getattr(prepared[1], f"{name}_strides")
    assert (strides.sequence, strides.token, strides.head) == x[n].stride()[:3]
    call(*inputs())  # the first is still known
    assert bytes(getattr(prepared[2], f"{name}_strides")) == bytes(
        getattr(prepared[0], f"{name}_strides")
    )


@each
def test_other_types_are_another_call(prepared, call):
    call(*inputs())
    q, k, v, g, beta = inputs()
    call(q, k, v, g.float(), beta.half())
    assert prepared.problem.gate_type is kda.DType.f32
    assert prepared.problem.beta_type is kda.DType.f16
    call(*inputs(dtype=torch.float16))
    assert prepared.problem.qkv_type is kda.DType.f16 and len(prepared.prepared) == 3


@each
def test_another_device_is_checked(prepared, call, monkeypatch):
    call(*inputs())
    monkeypatch.setattr(_call, "check", _tensors.check)
    call(*inputs())  # known, so not checked
    for n in range(1, 5):
        x = list(inputs())
        x[n] = x[n].to("meta")
        with pytest.raises(ValueError, match="kda runs on CUDA devices|out is .* on meta"):
            call(*x)


@pytest.mark.parametrize("call", list(CALLS.values())[:4], ids=list(CALLS)[:4])
def test_other_shapes_are_checked(prepared, call):
    call(*inputs())
    q, k, v, g, beta = inputs()
    for wrong in (
        (q, k[..., :32], v, g, beta),
        (q, k, v[:, :, :3], g, beta),
        (q, k, v, g[:, :, :2], beta),
        (q, k, v, g, beta[:, :, :2]),
    ):
        with pytest.raises(AssertionError, match="must be|multiple"):
            call(*wrong)
    assert len(prepared) == 1


@each
def test_gradients_are_refused_by_remembered_calls_too(prepared, call):
    with torch.inference_mode(False):
        x = inputs()
        x[2].requires_grad_()
        with torch.no_grad():
            call(*x)
            call(*x)
        call(*inputs())
        with pytest.raises(NotImplementedError, match="v requires a gradient"):
            call(*x)
        call(*inputs())
        with pytest.raises(NotImplementedError, match="v requires a gradient"):
            call(*x)
    assert len(prepared) == 4


def writing(written, asking):
    """A call that writes so many tensors, of which those named ask for a gradient."""
    q, k, v, g, beta = inputs()
    shapes = {"out": v.shape, "final_state": (3, 4, 32, 64), "state_pool": POOL.shape,
              "initial_state": (3, 4, 64, 32)}  # fmt: skip
    x = {
        name: torch.zeros(shapes[name], dtype=v.dtype if name == "out" else torch.float32,
                          requires_grad=name in asking)
        for name in written
    }  # fmt: skip
    if "state_pool" in x:
        paged_kda(q, k, v, g, beta, ssm_state_indices=SLOTS, **x)
    elif "initial_state" in x:
        fused_recurrent_kda_fwd(q, k, v, g, beta, **x)
    else:
        words = {"A_log": torch.zeros(4), "dt_bias": torch.zeros(4, 64), "lower_bound": -5.0}
        flash_kda_fwd(q, k, v, g, beta, 1.0, **x, **words)
    return x


WRITTEN = pytest.mark.parametrize(
    "written",
    [("out",), ("out", "final_state"), ("state_pool",), ("state_pool", "out"),
     ("initial_state", "out")],
    ids="+".join,
)  # fmt: skip


# The bug: inputs alone were looked at, so that the gradient of what reads an output flowed on to
# what made the tensor that was overwritten.
@WRITTEN
def test_gradients_of_what_is_written_are_refused(prepared, written):
    with torch.inference_mode(False):
        for name in written:
            for _ in range(2):  # the second is remembered
                with torch.no_grad():
                    writing(written, {name})
                writing(written, ())
                field = name.replace("state_pool", "initial_state")
                with pytest.raises(NotImplementedError, match=f"{field} requires a gradient"):
                    writing(written, {name})
        assert len(prepared) == 4 * len(written)


# The bug: autograd was not told, and took what it had saved of a tensor for what it was.
@WRITTEN
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_autograd_is_told_what_is_written(prepared, monkeypatch, written, mode):
    for tell in (_call.tell_written, _call._tell_by_name):
        monkeypatch.setattr(_call, "tell_written", tell)
        with torch.inference_mode(False):
            for _ in range(2):
                with mode():
                    x = writing(written, ())
                for y in x.values():
                    assert y.is_inference() or y._version == 1
    with torch.inference_mode(False):
        leaf = torch.ones(3, 1, 4, 32, dtype=torch.bfloat16, requires_grad=True)
        buffer = leaf.detach().clone()
        lost = (leaf * buffer).sum()
        paged_kda(*inputs(), POOL.clone(), SLOTS, out=buffer)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            lost.backward()


def test_operators_tell_autograd_too(prepared):
    rule = (0.0, int(kda.Gate.log_decay), -5.0, False, False, False, False, False)
    with torch.inference_mode(False), torch.no_grad():
        x = inputs()
        pool, state, out = POOL.clone(), torch.zeros(3, 4, 64, 32), torch.empty_like(x[2])
        _ops._forward_out_cuda(*x, None, None, None, None, *rule, out, state)
        _ops._paged_cuda(
            *x, None, None, pool, None, SLOTS, None, None, None, None, *rule, 0, False, False, out
        )
    assert (out._version, state._version, pool._version) == (2, 1, 1)


def test_autograd_is_told_in_one_call():
    if "list of tensors" not in torch.autograd.graph.increment_version.__doc__:
        pytest.skip("this torch is told of one tensor at a time")
    assert _call.tell_written is torch._C._increment_version


# The bug: a level of forward-mode differentiation was not looked for, and tangents were dropped.
@each
@pytest.mark.parametrize("n, name", list(enumerate(("q", "k", "v", "g", "beta"))))
def test_tangents_are_refused_by_remembered_calls_too(prepared, call, n, name):
    with torch.inference_mode(False), torch.no_grad():
        x = list(inputs())
        call(*x)
        with forward_ad.dual_level():
            call(*x)
            assert len(prepared) == 2 and len(prepared.prepared) == 1
            x[n] = forward_ad.make_dual(x[n], torch.ones_like(x[n]))
            with pytest.raises(NotImplementedError, match=f"{name} carries a tangent"):
                call(*x)
            with torch.inference_mode():  # which says that no tangent is wanted
                call(*x)
    assert len(prepared) == 3


def test_tangents_of_what_is_written_are_refused(prepared):
    with torch.inference_mode(False), torch.no_grad(), forward_ad.dual_level():
        q, k, v, g, beta = inputs()
        dual = lambda x: forward_ad.make_dual(x, torch.ones_like(x))  # noqa: E731
        state = torch.zeros(3, 4, 32, 64)
        words = {"A_log": torch.zeros(4), "dt_bias": torch.zeros(4, 64), "lower_bound": -5.0}
        for outs in ({"out": dual(v)}, {"out": v.clone(), "final_state": dual(state)}):
            with pytest.raises(NotImplementedError, match=f"{[*outs][-1]} carries a tangent"):
                flash_kda_fwd(q, k, v, g, beta, 1.0, **outs, **words)
        with pytest.raises(NotImplementedError, match="out carries a tangent"):
            paged_kda(q, k, v, g, beta, POOL, SLOTS, out=dual(v))
        with pytest.raises(NotImplementedError, match="initial_state carries a tangent"):
            paged_kda(q, k, v, g, beta, dual(POOL.clone()), SLOTS)
    assert not prepared


# The same bug in compiled code, which calls the operators and was traced without a level.
def test_operators_refuse_tangents(prepared):
    rule = (0.0, int(kda.Gate.log_decay), -5.0, False, False, False, False, False)
    pool = torch.zeros(9, 4, 64, 32)
    with torch.inference_mode(False), torch.no_grad(), forward_ad.dual_level():
        x = inputs()
        out = torch.empty_like(x[2])
        dual = forward_ad.make_dual(x[2], torch.ones_like(x[2]))
        for v in (x[2], dual):
            t = (*x[:2], v, *x[3:], None, None)
            calls = (
                lambda: _ops._forward_cuda(*t, None, None, *rule, False, False),
                lambda: _ops._forward_out_cuda(*t, None, None, *rule, out, None),
                lambda: _ops._paged_cuda(
                    *t, pool, None, SLOTS, None, None, None, None, *rule, 0, False, False, out
                ),
            )
            for call in calls:
                if v is dual:
                    with pytest.raises(NotImplementedError, match="v carries a tangent"):
                        call()
                else:
                    call()
    assert len(prepared) == 3


def test_one_tensor_less_is_another_call(prepared):
    """A_log of [4] and dt_bias of [4 * 1] look alike."""
    x = inputs(K=1)
    one = torch.zeros(4)
    words = {"use_gate_in_kernel": True, "lower_bound": -5.0}
    for names in ((), ("A_log",), ("dt_bias",), ("A_log", "dt_bias"), ("dt_bias",)):
        chunk_kda(*x, **words, **{name: one.clone() for name in names})
        f = prepared[-1]
        assert (bool(f.A_log), bool(f.dt_bias)) == ("A_log" in names, "dt_bias" in names)


@pytest.mark.parametrize("call", [chunk_kda, fused_recurrent_kda])
def test_words_are_part_of_a_call(prepared, call):
    call(*inputs())
    for word in ("use_qk_l2norm_in_kernel", "use_beta_sigmoid_in_kernel", "state_v_first"):
        call(*inputs(), **{word: True})
    call(*inputs(), scale=2.0)
    assert prepared.problem.scale == 2.0 and len(prepared.prepared) == 5
    assert call(*inputs(), output_final_state=True)[1] is not None
    assert call(*inputs())[1] is None
    with pytest.raises(ValueError, match="allow_neg_eigval=True needs"):
        call(*inputs(), allow_neg_eigval=True)


def test_a_parameter_that_changes_its_type_is_read_anew(prepared):
    """As module.half() does, and the parameter stays the same object."""
    x = inputs()
    A_log = torch.nn.Parameter(torch.full((4,), 3.5), requires_grad=False)
    words = {"A_log": A_log, "use_gate_in_kernel": True}
    read = []
    prepared.look = lambda f: read.append(ctypes.c_float.from_address(f.A_log).value)
    chunk_kda(*x, **words)
    assert prepared[-1].A_log == A_log.data_ptr()
    A_log.data = A_log.data.half()
    for _ in range(3):
        chunk_kda(*x, **words)
        assert prepared[-1].A_log != A_log.data_ptr()
    # The copy in float32 was there while the call was made.
    assert read == [3.5] * 4


# Bug: where a tensor was given twice, a remembered call read the memory of one that is negated
# lazily, which holds the other sign.
@each
def test_a_negated_tensor_is_another_call(prepared, call):
    q, _, *others = inputs()
    q += 1
    read = []
    prepared.look = lambda f: read.append((f.q == q.data_ptr(), f.k == q.data_ptr()))
    for _ in range(2):
        call(q, q, *others)
    negated = torch._neg_view(q)
    for _ in range(2):
        call(negated, negated, *others)
    assert read == [(True, True)] * 2 + [(False, False)] * 2 and len(prepared.prepared) == 2


# Bug: what is negated lazily was written with the other sign, slots were read with it.
def test_what_is_written_has_its_own_sign(prepared):
    x = inputs()
    negated = lambda *shape: torch._neg_view(torch.zeros(shape))  # noqa: E731
    out = torch._neg_view(torch.empty_like(x[2]))
    state, plain = negated(3, 4, 64, 32), torch.zeros(3, 4, 64, 32)
    for words, call in (
        ("the state pool is", lambda: paged_kda(*x, negated(*POOL.shape), SLOTS)),
        ("out is", lambda: paged_kda(*x, POOL, SLOTS, out=out)),
        ("out is", lambda: fused_recurrent_kda_fwd(*x, initial_state=plain, out=out)),
        ("initial_state is", lambda: fused_recurrent_kda_fwd(*x, initial_state=state)),
    ):
        with pytest.raises(ValueError, match=f"{words} negated lazily, .* resolve_neg"):
            call()
    read = []
    prepared.look = lambda f: read.append(ctypes.c_int32.from_address(f.pool.indices.data).value)
    for _ in range(2):
        paged_kda(*x, POOL, torch._neg_view(-SLOTS))
    assert read == [4, 4]


def test_a_pool_that_moves_or_grows(prepared):
    x = inputs()
    for pool, slots in (
        (POOL, SLOTS),
        (torch.zeros(20, 4, 64, 32), SLOTS),
        (torch.zeros(20, 5, 64, 32)[:, :4], SLOTS.clone()),
        (POOL, torch.zeros(3, 2, dtype=torch.int32)[:, 0]),  # apart: copied
    ):
        for _ in range(2):
            fused_recurrent_kda_fwd(*x, initial_state=pool, ssm_state_indices=slots)
            f = prepared[-1]
            assert (f.pool.slots, f.pool.stride) == (pool.shape[0], pool.stride(0))
            assert f.initial_state == f.final_state == pool.data_ptr()
            assert (f.pool.indices.data == slots.data_ptr()) == slots.is_contiguous()


def test_what_the_library_checks_it_checks_every_time(prepared):
    x = inputs()
    paged_kda(*x, POOL, SLOTS, out=torch.zeros_like(x[2]))
    with pytest.raises(AssertionError, match="o and v are the same memory"):
        paged_kda(*x, POOL, SLOTS, out=x[2].view_as(x[2]))
    assert len(prepared.prepared) == 1


def test_out_is_checked(prepared):
    x = inputs()
    paged_kda(*x, POOL, SLOTS, out=torch.zeros_like(x[2]))
    with pytest.raises(ValueError, match="out is torch.float32"):
        paged_kda(*x, POOL, SLOTS, out=torch.zeros(x[2].shape))
    with pytest.raises(AssertionError, match=r"out is \[3, 1, 4, 33\]"):
        paged_kda(*x, POOL, SLOTS, out=torch.zeros(3, 1, 4, 33, dtype=torch.bfloat16))


class Watching(TorchDispatchMode):
    """Sees operators, and gives what their fake kernels would."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, arguments=(), words=None):
        self.seen.append(str(function))
        if "kda" not in str(function):
            return function(*arguments, **(words or {}))
        return arguments[2].clone(), arguments[2].new_empty(0)


def test_a_mode_sees_the_operator_of_a_remembered_call(prepared):
    chunk_kda(*inputs())
    with Watching() as watching:
        chunk_kda(*inputs())
    assert "kda.forward.default" in watching.seen and len(prepared) == 1


def test_an_operator_is_told_all_of_a_rule():
    rule = _call.Rule(0.5, kda.Gate.bounded, -2.0, False, False, True, True, torch.bfloat16)
    for told in (rule, rule._replace(beta_at_most_one=True), rule._replace(l2norm_qk=False)):
        assert _ops._rule_of(_ops._words_of(told), torch.bfloat16) == told


def test_an_operator_is_remembered_too(prepared):
    """By what it is given inside of compiled code, where every call goes through it."""
    t = _tensors.Tensors(*inputs(), None, None, None, None)
    rule = _call.Rule(0.0, kda.Gate.log_decay, -5.0, False, False, False, False, torch.float32)
    ready = _ops.ready_for(rule, t, True)
    assert _ops.ready_for(rule, _tensors.Tensors(*inputs(), *t[5:]), True) is ready
    for other in (
        (rule._replace(l2norm_qk=True), t, True),
        (rule, t, False),
        (rule, t._replace(g=t.g.float()), True),
        (rule, t._replace(A_log=torch.zeros(4)), True),
    ):
        assert _ops.ready_for(*other) is not ready
    assert len(prepared.prepared) == 5


@pytest.mark.parametrize("strict", [False, True])
def test_tracing_sees_the_operator_of_a_remembered_call(prepared, strict):
    class Layer(torch.nn.Module):
        def forward(self, *x):
            return chunk_kda(*x, output_final_state=True)

    with torch.inference_mode(False), torch.no_grad():
        x = inputs()
        chunk_kda(*x, output_final_state=True)
        exported = torch.export.export(Layer(), x, strict=strict)
    assert "torch.ops.kda.forward.default" in exported.graph_module.code
    assert len(prepared) == 1


def test_threads_pack_their_own_pointers(prepared):
    chunk_kda(*inputs(), output_final_state=True)
    wrong, mine = [], threading.local()
    prepared.look = lambda f: setattr(mine, "last", (f.q, f.k, f.v, f.g, f.beta, f.o))

    def work():
        with torch.inference_mode():
            for _ in range(300):
                x = inputs()
                o, _ = chunk_kda(*x, output_final_state=True)
                if mine.last != tuple(y.data_ptr() for y in (*x, o)):
                    wrong.append(mine.last)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(prepared) == 1201


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_outputs_are_those_of_the_mode(prepared, mode):
    with torch.inference_mode(False), mode():
        for _ in range(2):
            for y in chunk_kda(*inputs(), output_final_state=True):
                assert y.is_inference() == (mode is torch.inference_mode) and not y.requires_grad


def test_many_lengths_are_remembered_at_once(prepared):
    for _ in range(2):
        for T in range(1, 30):
            chunk_kda(*inputs(T=T))
            assert prepared[-1].tokens == 3 * T
    assert len(prepared.prepared) == 29


@pytest.fixture
def viewed(monkeypatch):
    """The names that Plan.run looked at; CPU tensors pass for CUDA's."""
    seen = []

    def view(name, x):
        seen.append(name)
        kind = tensors._TORCH_TYPES[str(x.dtype)]
        return tensors.View(x.data_ptr(), tuple(x.shape), tuple(x.stride()), kind, x)

    monkeypatch.setattr(tensors, "_of_torch", view)
    return seen


def run_of(**changed):
    new = lambda *shape: torch.zeros(shape, dtype=torch.bfloat16)  # noqa: E731
    return {
        "q": new(24, 2, 64), "k": new(24, 2, 64), "v": new(24, 4, 32), "g": new(24, 4, 64),
        "beta": new(24, 4), "o": new(24, 4, 32), "initial_state": torch.zeros(3, 4, 32, 64),
        "final_state": torch.zeros(3, 4, 32, 64), "workspace": 1 << 20, "sequences": 3, "stream": 0,
        **changed,
    }  # fmt: skip


def test_a_plan_looks_at_torch_tensors_once(small_plan, viewed):
    def run(**changed):
        viewed.clear()
        with pytest.raises(kda.Unsupported):  # the library's last check
            small_plan.run(**run_of(**changed))
        return len(viewed)

    assert run() == 8
    assert run() == 0
    wide = torch.zeros(24, 4, 64, dtype=torch.bfloat16)
    assert run(k=wide[:, :2]) == 8 and run(k=wide[:, :2]) == 0
    assert run(A_log=torch.zeros(4)) == 9
    assert run(sequences=1, initial_state=torch.zeros(1, 4, 32, 64),
               final_state=torch.zeros(1, 4, 32, 64)) == 8  # fmt: skip
    state = torch.zeros(3, 4, 32, 64)
    assert run(initial_state=state, final_state=state) == 8
    assert run(initial_state=state, final_state=state) == 0
    assert run(k=wide.data_ptr()) == 7  # an address is looked at every time
    assert run(k=wide.data_ptr()) == 7
    assert run() == 0


# Bug: the memory of a tensor that is negated lazily was read, in remembered runs too.
def test_a_plan_refuses_negated_tensors(small_plan, viewed, monkeypatch):
    real = tensors._of_torch
    monkeypatch.setattr(
        tensors, "_of_torch", lambda name, x: (tensors.check_sign(name, x), real(name, x))[1]
    )
    k = torch.zeros(24, 2, 64, dtype=torch.bfloat16)
    for changed in ({}, {"k": torch._neg_view(k)}, {"q": k, "k": k}, {"k": torch._neg_view(k)}):
        negated = changed.get("k", k).is_neg()
        for _ in range(2):
            with pytest.raises(ValueError if negated else kda.Unsupported) as caught:
                small_plan.run(**run_of(**changed))
            assert ("k is negated lazily" in str(caught.value)) == negated


class OnDevice(torch.Tensor):
    """A CPU tensor that says it is on the second GPU."""

    is_cuda = True
    device = torch.device("cuda", 1)

    def get_device(self):
        return 1


class Device:
    """What Plan.run asks of torch's CUDA part: its current device and streams, and memory."""

    def __init__(self, monkeypatch, current):
        self.current, self.stream = current, "torch's"
        self.seen = []  # of each allocation the stream, of each launch the current device
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: self.current, raising=False)
        monkeypatch.setattr(
            torch._C, "_cuda_getCurrentRawStream", lambda index: 70 + index, raising=False
        )
        monkeypatch.setattr(
            torch._C._dynamo.guards, "_empty_strided_cuda", self.fast_empty, raising=False
        )
        monkeypatch.setattr(torch, "empty", self.empty)
        monkeypatch.setattr(torch.cuda, "device", lambda index: self.entered("current", index))
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: self.entered("stream", stream))
        monkeypatch.setattr(torch.cuda, "ExternalStream", lambda queue, device: (queue, device))
        monkeypatch.setattr(torch.cuda, "default_stream", lambda device: (0, device))
        self.real = _abi.library().kda_plan_run
        monkeypatch.setattr(_abi.library(), "kda_plan_run", self.run)

    @contextlib.contextmanager
    def entered(self, name, value):
        before = getattr(self, name)
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, before)

    def fast_empty(self, shape, strides, dtype):
        self.seen.append((f"a fast allocation on {self.current}", self.stream))
        return torch.zeros(shape, dtype=dtype)

    def empty(self, size, *, dtype, device):
        self.seen.append((f"an allocation on {device.index}", self.stream))
        return torch.zeros(size, dtype=dtype)

    def run(self, handle, forward, memory, size, queue):
        self.seen.append((f"a launch on {self.current}", queue))
        return self.real(handle, forward, -(-memory // 256) * 256, size, queue)


@pytest.fixture
def plan_with_workspace():
    return kda.Plan(
        kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                    max_sequences=4, initial_state=True, final_state=True),
        kda.Options(target="sm_90a", strategy="chunk_wgmma"),
    )  # fmt: skip


def run_on_device(plan, **changed):
    x = run_of(**changed)
    for name, y in x.items():
        if isinstance(y, torch.Tensor):
            x[name] = y.as_subclass(OnDevice)
    with pytest.raises(kda.Unsupported):
        plan.run(**x)


# The bug: the workspace of a run on a stream of the caller's was of torch's current stream, whose
# next kernels could have it while those of the run were still writing.
@pytest.mark.parametrize("stream", [None, 71, 5, 0])
def test_a_workspace_is_of_the_stream_of_its_run(plan_with_workspace, viewed, monkeypatch, stream):
    assert plan_with_workspace.workspace_bytes
    device = Device(monkeypatch, current=1)
    run_on_device(plan_with_workspace, workspace=None, stream=stream)
    if stream in (None, 71):  # torch's current one
        assert device.seen == [
            ("a fast allocation on 1", "torch's"),
            ("a launch on 1", 71),
        ]
    else:
        assert device.seen == [
            ("an allocation on 1", (stream, torch.device("cuda", 1))),
            ("a launch on 1", stream),
        ]
    assert device.stream == "torch's"


# The bug: tensors of a GPU that is not the current one were launched on the current one's stream 0.
@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("stream", [None, 0])
def test_a_run_is_on_the_device_of_its_tensors(small_plan, viewed, monkeypatch, current, stream):
    device = Device(monkeypatch, current)
    run_on_device(small_plan, stream=stream)
    assert device.seen == [("a launch on 1", 71 if stream is None else 0)]
    assert device.current == current


# The bug: the stream that a __cuda_array_interface__ names was not looked at.
@pytest.mark.parametrize("stream, queue", [(None, 71), (0, 0), (1, 0), (9, 9)])
def test_a_run_goes_after_the_streams_of_others_tensors(
    small_plan, viewed, monkeypatch, stream, queue
):
    device = Device(monkeypatch, current=0)
    monkeypatch.setattr(
        kda.plan, "go_after", lambda *x: device.seen.append((*x, f"on {device.current}"))
    )
    state = Array((3, 4, 32, 64), "<f4", stream=9)
    workspace = Array((1 << 16,), "|u1", stream=9)
    for _ in range(2):
        device.seen.clear()
        run_on_device(small_plan, initial_state=state, workspace=workspace, stream=stream)
        waits = [(queue, 9, "initial_state", "on 1")] if queue != 9 else []
        assert device.seen == [*waits, ("a launch on 1", queue)]


def test_a_workspace_of_others_has_a_stream_in_remembered_runs_too(small_plan, viewed, monkeypatch):
    waits = []
    monkeypatch.setattr(kda.plan, "go_after", lambda *x: waits.append(x))
    workspace = Array((1 << 16,), "|u1", stream=9)
    for _ in range(2):
        viewed.clear()
        with pytest.raises(kda.Unsupported):
            small_plan.run(**run_of(workspace=workspace))
    assert waits == [(0, 9, "workspace")] * 2 and not viewed


def test_a_workspace_is_of_the_device_of_its_run(plan_with_workspace, viewed, monkeypatch):
    device = Device(monkeypatch, current=0)
    run_on_device(plan_with_workspace, workspace=None, stream=None)
    assert device.seen == [("a fast allocation on 1", "torch's"), ("a launch on 1", 71)]


# The bug: memory of the host, of another GPU or between other elements was written as the workspace.
def test_a_workspace_of_torch_is_what_the_run_can_write(small_plan, viewed, monkeypatch):
    class OnFirst(OnDevice):
        device = torch.device("cuda", 0)

        def get_device(self):
            return 0

    Device(monkeypatch, current=1)
    memory = torch.zeros(1 << 16, dtype=torch.uint8)
    run_on_device(small_plan, workspace=memory)
    x = {n: y.as_subclass(OnDevice) if torch.is_tensor(y) else y for n, y in run_of().items()}
    for workspace, words in (
        (memory, "workspace is on cpu; kda needs CUDA memory"),
        (memory.as_subclass(OnFirst), "workspace is on cuda:0 and q on cuda:1"),
        (memory[::2].as_subclass(OnDevice), r"workspace has strides \[2\]; it must be contiguous"),
        (memory[:1].expand(64).as_subclass(OnDevice), r"workspace has strides \[0\]"),
    ):
        for _ in range(2):
            with pytest.raises(ValueError, match=words):
                small_plan.run(**{**x, "workspace": workspace})
    # Of q by DLPack, on the first device, too.
    exported = Exporter((24, 2, 64), None, code=4, bits=16)
    workspace = memory.as_subclass(OnDevice)
    addresses = {n: 1 << 40 for n, y in run_of().items() if torch.is_tensor(y)}
    with pytest.raises(ValueError, match="workspace is on cuda:1 and q on cuda:0"):
        small_plan.run(**{**run_of(**addresses), "q": exported, "workspace": workspace})


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"k": torch.zeros(24, 2, 64)}, "k is torch.float32|k is f32"),
        ({"k": torch.zeros(23, 2, 64, dtype=torch.bfloat16)}, "k has the shape"),
        ({"k": torch.zeros(24, 64, 2, dtype=torch.bfloat16).mT}, "last dimension"),
        ({"sequences": 5}, "initial_state has the shape|sequences = 5"),
        ({"final_state": torch.zeros(3, 4, 64, 32)}, "final_state has the shape"),
    ],
)
def test_a_plan_that_knows_a_run_refuses_another(small_plan, viewed, changed, words):
    for _ in range(2):
        with pytest.raises(kda.Unsupported):
            small_plan.run(**run_of())
    with pytest.raises(ValueError, match=words):
        small_plan.run(**run_of(**changed))
    with pytest.raises(ValueError, match="o and q are the same memory|o has the shape"):
        q = torch.zeros(24, 2, 64, dtype=torch.bfloat16)
        small_plan.run(**run_of(q=q, o=q))


def test_a_plan_asks_for_no_gradients(small_plan, viewed):
    x = run_of(k=torch.zeros(24, 2, 64, dtype=torch.bfloat16).requires_grad_())
    for _ in range(2):
        with pytest.raises(kda.Unsupported):
            small_plan.run(**x)
    viewed.clear()
    with pytest.raises(kda.Unsupported):
        small_plan.run(**x)
    assert not viewed
