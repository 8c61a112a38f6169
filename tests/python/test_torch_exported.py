"""Exported and traced programs call operators alone, which refuse what Python would.  No GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from launching import inputs  # noqa: E402

from kda.torch import chunk_kda, fused_recurrent_kda_fwd, paged_kda, prefill  # noqa: E402

SLOTS = torch.arange(3)


class Layer(torch.nn.Module):
    """A call of what a parameter made."""

    def __init__(self, call):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones((), dtype=torch.bfloat16))
        self.call = call

    def forward(self, q, *x):
        return self.call(q * self.weight, *x)


def in_place(*x):
    return fused_recurrent_kda_fwd(*x[:5], initial_state=x[5])[0]


def exported(layer, x):
    with torch.no_grad():
        return torch.export.export(layer, x)


# Bug: what was exported under no_grad ran in grad mode, and no gradient reached what lies before
# KDA, without a word.
@pytest.mark.parametrize(
    "call, operator, states",
    [
        (lambda *x: chunk_kda(*x)[0], "kda.forward.default", []),
        (in_place, "kda.forward_out.default", [(3, 4, 64, 32)]),
        (lambda *x: paged_kda(*x, SLOTS), "kda.paged.default", [(9, 4, 64, 32)]),
    ],
    ids=["forward", "forward_out", "paged"],
)
def test_exported_programs_refuse_gradients(launches, call, operator, states):
    with torch.inference_mode(False):
        x = (*inputs(), *map(torch.zeros, states))
        program = exported(Layer(call), x)
        assert operator in program.graph_module.code
        for run in (program.module(), program.run_decompositions().module()):
            with pytest.raises(NotImplementedError, match="torch.ops.kda: q requires a gradient"):
                run(*x)
            assert not launches
            for mode in (torch.no_grad, torch.inference_mode):
                with mode():
                    run(*x)
                launches.pop()
        run.requires_grad_(False)
        run(*x)
    assert len(launches) == 1


# Bug: the same of what is written: only the Python around the operators looked at it.
@pytest.mark.parametrize("written", ["o", "final_state", "initial_state"])
def test_operators_refuse_gradients_of_what_they_write(launches, written):
    with torch.inference_mode(False):
        x = inputs()
        rule = (0.0, 0, -5.0, False, False, False, False, False)
        new = lambda name, y: y.clone().requires_grad_(name == written)  # noqa: E731
        o, state = new("o", x[2]), new("final_state", torch.zeros(3, 4, 64, 32))
        pool = new("initial_state", torch.zeros(9, 4, 64, 32))
        calls = {
            "final_state": lambda: torch.ops.kda.forward_out(*x, *[None] * 4, *rule, o, state),
            "initial_state": lambda: torch.ops.kda.paged(
                *x, None, None, pool, None, SLOTS, *[None] * 4, *rule, 0, False, False, o
            ),
        }
        for writes, call in calls.items():
            if written in ("o", writes):
                with pytest.raises(NotImplementedError, match=f"{written} requires a gradient"):
                    call()
            with torch.no_grad():
                call()
    assert len(launches) == 2


# Bug: the same of kda_prefill, whose decomposed programs call `fill` alone.
def test_decomposed_programs_of_kda_prefill_refuse_gradients():
    def call(q, beta):
        return torch.ops.kda_prefill.forward(q, q, q, q, beta, 32)[0]

    x = torch.zeros(2, 3, 40, 64), torch.zeros(2, 3, 40)
    layer = Layer(call).float()
    program = exported(layer, x).run_decompositions()
    assert "kda_prefill.fill" in program.graph_module.code
    assert "kda_prefill.forward" not in program.graph_module.code
    with pytest.raises(NotImplementedError, match="kda_prefill: q requires a gradient"):
        program.module()(*x)
    with torch.no_grad(), pytest.raises(ValueError, match="q is on cpu; kda runs on CUDA devices"):
        program.module()(*x)
    q, wy = x[0] * layer.weight, torch.zeros(2, 3, 2, 32, 64)
    with pytest.raises(NotImplementedError, match="kda_prefill: q requires a gradient"):
        prefill._fill(q, q, q, q, x[1], 32, wy, wy.clone(), x[0])  # of CUDA


# Bug: torch.jit.trace, of which shapes are tensors, died of that, or recorded none of the kernels.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    "call, operator, states",
    [
        (lambda *x: chunk_kda(*x, output_final_state=True), "kda::forward", []),
        (in_place, "kda::forward_out", [(3, 4, 64, 32)]),
        (lambda *x: paged_kda(*x, SLOTS), "kda::paged", [(9, 4, 64, 32)]),
    ],
    ids=["forward", "forward_out", "paged"],
)
def test_jit_traces_see_operators(launches, call, operator, states):
    with torch.inference_mode(False), torch.no_grad():
        x = (*inputs(), *map(torch.zeros, states))
        for _ in range(2):  # the second after one that is remembered
            traced = torch.jit.trace(Layer(call), x, check_trace=False)
            assert operator in [node.kind() for node in traced.inlined_graph.nodes()]
            call(*x)
        traced(*x)
    assert len(launches) == 5 and launches[-1].q and launches[-1].k == x[1].data_ptr()
