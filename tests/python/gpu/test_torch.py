"""torch.compile, CUDA graphs, streams, threads and torch's allocator."""

import dataclasses
import threading

import pytest

torch = pytest.importorskip("torch")

from gpu.cases import Case, call, inputs  # noqa: E402

import kda.torch  # noqa: E402

CASES = [
    Case((70,), K=128, V=128, gate="bounded+bias", beta="logit", l2norm=True, v_first=True,
         initial_state=True),
    Case((1,) * 8, K=128, V=128, recurrent=True, initial_state=True),
    Case((5, 0, 64, 31), packed=True, gate="softplus+bias", l2norm=True, initial_state=True),
]  # fmt: skip
each = pytest.mark.parametrize("case", CASES, ids=["dense", "decode", "packed"])


def function_of(case):
    return kda.torch.fused_recurrent_kda if case.recurrent else kda.torch.chunk_kda


@each
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_is_eager(case, mode):
    torch.compiler.reset()
    function = function_of(case)
    x = inputs(case)
    want = call(case, x)

    @torch.compile(fullgraph=True, mode=mode)
    def layer(tensors, words):
        o, state = function(**tensors, **words)
        return o * 2, state

    for _ in range(3):
        o, state = layer(x.tensors, x.words)
        assert torch.equal(o, want[0] * 2)
        assert torch.equal(state, want[1])


def test_a_first_call_may_be_compiled_with_cuda_graphs():
    """What a call keeps must not lie in the graphs' memory: torch refuses that."""
    torch.compiler.reset()
    x = inputs(Case((75,), K=72, V=48))
    compiled = torch.compile(kda.torch.chunk_kda, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        o = compiled(**x.tensors)[0].clone()
    assert torch.equal(o, kda.torch.chunk_kda(**x.tensors)[0])


def test_compiled_with_other_lengths():
    torch.compiler.reset()
    compiled = torch.compile(kda.torch.chunk_kda, fullgraph=True, dynamic=True)
    for T in (17, 64, 100, 513):
        x = inputs(Case((T,)))
        assert torch.equal(compiled(**x.tensors)[0], kda.torch.chunk_kda(**x.tensors)[0])


@each
def test_a_captured_graph_replays_on_new_contents(case):
    x, other = inputs(case), inputs(Case(**{**vars(case), "seed": 5}))
    want = [y.clone() for y in call(case, other)]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    call(case, x)
    with torch.cuda.graph(graph):
        o, state = call(case, x)
    for words, fresh in ((x.tensors, other.tensors), (x.words, other.words)):
        for name, y in words.items():
            if isinstance(y, torch.Tensor):
                y.copy_(fresh[name])
    for _ in range(3):
        graph.replay()
    assert torch.equal(o, want[0]) and torch.equal(state, want[1])


def test_a_graph_of_packed_sequences_replays_with_other_boundaries():
    """FLA's use_graph: cu_seqlens padded with empty sequences; ours needs no word for it."""
    case = Case((40, 60, 0, 0), packed=True, initial_state=True)
    x = inputs(case)
    graph = torch.cuda.CUDAGraph()
    kda.torch.chunk_kda(**x.tensors, **x.words)
    with torch.cuda.graph(graph):
        o, state = kda.torch.chunk_kda(**x.tensors, **x.words, use_graph=True, max_num_seqs=4)
    moved = Case((7, 33, 41, 19), packed=True, initial_state=True)
    x.words["cu_seqlens"].copy_(torch.tensor([0, 7, 40, 81, 100], device="cuda"))
    graph.replay()
    want = call(moved, x)
    assert torch.equal(o, want[0]) and torch.equal(state, want[1])


@pytest.mark.parametrize(
    "case",
    [Case((11,), K=44, V=36), Case((1,) * 3, K=44, V=36, recurrent=True, initial_state=True),
     Case((5, 0, 30), packed=True, K=44, V=40, gate="softplus+bias", l2norm=True)],
    ids=["dense", "decode", "packed"],
)  # fmt: skip
def test_a_first_call_may_be_captured(case):
    """It was refused."""
    x = inputs(case)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        o, state = call(case, x)
    graph.replay()
    want = call(case, x)
    assert torch.equal(o, want[0])
    assert state is None or torch.equal(state, want[1])


def test_plans_are_made_beside_the_capture_of_another_thread():
    x = inputs(CASES[0])
    call(CASES[0], x)
    torch.cuda.synchronize()
    made = []

    def make():
        problem = kda.Problem(heads=2, key_dim=52, value_dim=44, max_tokens=64)
        for lower_bound in (-1.25, -2.5):
            made.append(kda.Plan(dataclasses.replace(problem, lower_bound=lower_bound)).describe())

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        o, _ = call(CASES[0], x)
    graph.replay()
    assert len(made) == 2
    assert torch.equal(o, call(CASES[0], x)[0])


def test_the_current_stream_is_used():
    case = CASES[0]
    x = inputs(case)
    want = call(case, x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # about 10 ms: what runs elsewhere would be done before
        o, _ = call(case, x)
        event = torch.cuda.Event()
        event.record()
    assert not event.query()
    stream.synchronize()
    assert torch.equal(o, want[0])


def test_threads_and_streams():
    case = Case((200,), K=128, V=128, initial_state=True)
    xs = [inputs(Case(**{**vars(case), "seed": i})) for i in range(4)]
    wants = [[y.clone() for y in call(case, x)] for x in xs]
    torch.cuda.synchronize()
    wrong = []

    def work(i):
        with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                o, state = call(case, xs[i])
                torch.cuda.current_stream().synchronize()
                if not (torch.equal(o, wants[i][0]) and torch.equal(state, wants[i][1])):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_remembered_calls_take_other_strides_and_types():
    case = Case((96,), K=128, V=128, initial_state=True)
    x = inputs(case)
    want = call(case, x)
    apart = {}
    for name, y in x.tensors.items():
        wide = torch.full((*y.shape[:2], y.shape[2] + 1, *y.shape[3:]), 7.0).to(y)
        apart[name] = wide[:, :, 1:]
        apart[name].copy_(y)
    single = {name: y.float() if name in ("g", "beta") else y for name, y in x.tensors.items()}
    for _ in range(3):
        for tensors in (x.tensors, apart, single):
            for y, wanted in zip(kda.torch.chunk_kda(**tensors, **x.words), want):
                assert (y - wanted).norm() <= 0.005 * wanted.norm()


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_outputs_are_those_of_the_mode(mode):
    x = inputs(Case((33,)))
    with torch.inference_mode(False), mode():
        for _ in range(2):
            o, _ = kda.torch.chunk_kda(**{name: y.clone() for name, y in x.tensors.items()})
            assert o.is_inference() == (mode is torch.inference_mode) and not o.requires_grad
            assert o.is_contiguous() and o.device == x.tensors["q"].device


def test_memory_goes_back_to_torch():
    x = inputs(Case((2048,), K=128, V=128, H=8))
    kda.torch.chunk_kda(**x.tensors)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(10):
        kda.torch.chunk_kda(**x.tensors)
    assert torch.cuda.memory_allocated() == before


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_tensors_of_another_device():
    x = inputs(Case((64,)), device="cuda:1")
    here = inputs(Case((64,)), device="cuda:0")
    for name in here.tensors:
        x.tensors[name].copy_(here.tensors[name])
    o, _ = kda.torch.chunk_kda(**x.tensors)
    assert o.device.index == 1
    assert torch.equal(o.cpu(), kda.torch.chunk_kda(**here.tensors)[0].cpu())
    x.tensors["k"] = here.tensors["k"]
    with pytest.raises(ValueError, match="k is on cuda:0 and q on cuda:1"):
        kda.torch.chunk_kda(**x.tensors)


@each
def test_opcheck(case):
    """torch's own tests of an operator: its schema, its fake kernel, its tracing."""
    from kda.torch import _call, _ops

    x = inputs(case)
    words = x.words
    rule = _call.Rule(0.0, kda.Gate.log_decay, -5.0, False, False, True, case.v_first, torch.float32)
    arguments = (
        *x.tensors.values(), words.get("A_log"), words.get("dt_bias"), words.get("initial_state"),
        words.get("cu_seqlens"), *_ops._words_of(rule), True, False,
    )  # fmt: skip
    torch.library.opcheck(
        torch.ops.kda.forward.default,
        arguments,
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_static"),
    )
