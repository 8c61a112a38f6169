"""torch.compile and export see one operator a call, and its fake kernel tells shapes.  No GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from kda.torch import (  # noqa: E402
    chunk_kda,
    flash_kda_fwd,
    fused_recurrent_kda,
    fused_recurrent_kda_fwd,
    paged_kda,
)


def inputs(B, T, H, HV, K, V, dtype=torch.bfloat16):
    new = lambda *shape: torch.zeros(shape, dtype=dtype, device="meta")  # noqa: E731
    return new(B, T, H, K), new(B, T, H, K), new(B, T, HV, V), new(B, T, HV, K), new(B, T, HV)


class Recorder:
    """A compiler that runs the graph as it is, and keeps it."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, example_inputs):
        self.graphs.append(graph)
        return graph.forward

    def operators(self):
        return [
            str(node.target)
            for graph in self.graphs
            for node in graph.graph.nodes
            if node.op == "call_function" and "kda" in str(node.target)
        ]


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


@pytest.mark.parametrize("call", [chunk_kda, fused_recurrent_kda])
@pytest.mark.parametrize("v_first", [False, True])
def test_a_call_is_one_operator(call, v_first):
    recorder = Recorder()

    @torch.compile(fullgraph=True, backend=recorder)
    def layer(q, k, v, g, beta, A_log, cu_seqlens):
        o, state = call(
            q * 2, k, v, g, beta, A_log=A_log, use_gate_in_kernel=True, output_final_state=True,
            state_v_first=v_first, cu_seqlens=cu_seqlens,
        )  # fmt: skip
        return o + 1, state

    with torch.inference_mode():
        x = inputs(1, 24, 2, 4, 64, 32)
        A_log = torch.zeros(4, device="meta")
        cu_seqlens = torch.zeros(4, dtype=torch.int64, device="meta")
        o, state = layer(*x, A_log, cu_seqlens)
    assert o.shape == (1, 24, 4, 32) and o.dtype == torch.bfloat16
    assert state.shape == ((3, 4, 32, 64) if v_first else (3, 4, 64, 32))
    assert state.dtype == torch.float32
    assert recorder.operators() == ["kda.forward"]


# The bug: the warning of the old name broke the graph.
@pytest.mark.parametrize("call", [chunk_kda, fused_recurrent_kda])
def test_the_old_name_of_state_v_first_is_one_operator_too(call):
    recorder = Recorder()

    @torch.compile(fullgraph=True, backend=recorder)
    def layer(*x):
        return call(*x, output_final_state=True, transpose_state_layout=True)

    with torch.inference_mode():
        _, state = layer(*inputs(1, 24, 2, 4, 64, 32))
    assert state.shape == (1, 4, 32, 64)
    assert recorder.operators() == ["kda.forward"]


def test_no_final_state_is_none():
    @torch.compile(fullgraph=True, backend="eager")
    def layer(*x):
        return chunk_kda(*x)

    with torch.no_grad():
        o, state = layer(*inputs(2, 8, 2, 2, 16, 16))
    assert o.shape == (2, 8, 2, 16) and state is None


def test_lengths_may_be_symbols():
    recorder = Recorder()

    @torch.compile(fullgraph=True, dynamic=True, backend=recorder)
    def layer(*x):
        return chunk_kda(*x, output_final_state=True)

    with torch.no_grad():
        for T in (17, 33, 65):
            o, _ = layer(*inputs(1, T, 2, 2, 16, 16))
            assert o.shape[1] == T
    assert len(recorder.graphs) == 1


def test_through_aot_autograd():
    """As inductor would have it: functionalised and with decompositions."""

    def layer(q, k, v, g, beta, out):
        flash_kda_fwd(
            q, k, v, g, beta, 1.0, out, torch.zeros(2, device="meta"),
            torch.zeros(2, 16, device="meta"), -5.0,
        )  # fmt: skip
        o, _ = chunk_kda(q, k, v, g, beta)
        return out + o

    with torch.no_grad():
        x = inputs(1, 8, 2, 2, 16, 16)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        assert compiled(*x, torch.empty_like(x[2])).shape == (1, 8, 2, 16)


def test_kda_prefill_is_seen_through():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def layer(x, beta):
        return torch.ops.kda_prefill.forward(x, x, x, x, beta, 32)

    x = torch.zeros(1, 2, 40, 64, device="meta")
    with torch.no_grad():
        o, w, u = layer(x, torch.zeros(1, 2, 40, device="meta"))
    assert o.shape == x.shape and w.shape == u.shape == (1, 2, 2, 32, 64)


def test_refusals_come_through_the_compiler():
    compiled = torch.compile(chunk_kda, backend="eager")
    with torch.no_grad(), pytest.raises(ValueError, match="allow_neg_eigval=True needs"):
        compiled(*inputs(1, 8, 2, 2, 16, 16), allow_neg_eigval=True)


# The bug: a bound that had changed before, a symbol to the compiler by then, could not be put into
# the refusal's words, and the compiler died of that.
def test_a_bound_that_changes_is_refused_in_our_words():
    def layer(bound, *x):
        return chunk_kda(*x, use_gate_in_kernel=True, safe_gate=True, lower_bound=bound)[0]

    x = inputs(1, 8, 2, 2, 16, 16)
    compiled = torch.compile(layer, backend="eager")
    with torch.no_grad():
        for bound in (-1.0, -2.0):
            assert compiled(bound, *x).shape == (1, 8, 2, 16)
        with pytest.raises(ValueError, match=r"lower_bound = -6\.0; safe_gate needs it in"):
            compiled(-6.0, *x)


# The bug: these were found by the operator alone, when what was compiled ran.
@pytest.mark.parametrize("call", [chunk_kda, fused_recurrent_kda])
@pytest.mark.parametrize(
    "kind, words, n, wrong",
    [
        (NotImplementedError, "k is torch.float16 and q is", 1, torch.float16),
        (NotImplementedError, "v is torch.float32 and q is", 2, torch.float32),
        (ValueError, "g is torch.float64; known: ", 3, torch.float64),
        (ValueError, "beta is torch.int32; known: ", 4, torch.int32),
    ],
)
def test_types_are_refused_while_tracing(call, kind, words, n, wrong):
    x = list(inputs(1, 8, 2, 2, 16, 16))
    x[n] = x[n].to(wrong)
    with torch.no_grad(), pytest.raises(kind, match=words):
        torch.compile(call, backend="eager")(*x)


def test_a_pools_type_is_refused_while_tracing():
    pool = torch.zeros(5, 2, 16, 16, dtype=torch.float16, device="meta")
    slots = torch.zeros(1, dtype=torch.int32, device="meta")
    with torch.no_grad(), pytest.raises(NotImplementedError, match="pool is torch.float16; kda"):
        torch.compile(paged_kda, backend="eager")(*inputs(1, 8, 2, 2, 16, 16), pool, slots)


def test_export():
    class Layer(torch.nn.Module):
        def forward(self, *x):
            return chunk_kda(*x, output_final_state=True)

    with torch.no_grad():
        exported = torch.export.export(Layer(), inputs(1, 8, 2, 2, 16, 16))
    assert "torch.ops.kda.forward.default" in exported.graph_module.code


class LeavesItsPool(torch.nn.Module):
    def forward(self, pool, slots, accepted, *x):
        return fused_recurrent_kda_fwd(
            *x, initial_state=pool, ssm_state_indices=slots, num_accepted_tokens=accepted,
            inplace_final_state=False, output_final_state=True,
        )  # fmt: skip


def of_a_pool(device):
    new = lambda *shape: torch.zeros(shape, device=device)  # noqa: E731
    x = new(2, 1, 2, 16), new(2, 1, 2, 16), new(2, 1, 2, 16), new(2, 1, 2, 16), new(2, 1, 2)
    return new(5, 2, 16, 16), new(2, 3).int(), new(2).int(), *(y.bfloat16() for y in x)


# Bug: the form that leaves its pool asked for the addresses of slots while it was traced, of which
# they have none, and neither export nor fake tensors came through.
@pytest.mark.parametrize("strict", [False, True])
def test_export_of_a_call_that_leaves_its_pool(strict):
    with torch.no_grad():
        exported = torch.export.export(LeavesItsPool(), of_a_pool("meta"), strict=strict)
    assert "torch.ops.kda.paged.default" in exported.graph_module.code


def test_fake_tensors_of_a_call_that_leaves_its_pool():
    with FakeTensorMode(), torch.no_grad():
        o, state = LeavesItsPool()(*of_a_pool("cpu"))
    assert o.shape == (2, 1, 2, 16) and state.shape == (2, 2, 16, 16)
