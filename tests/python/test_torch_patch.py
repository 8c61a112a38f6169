"""kda.torch.patch_fla on a model of modules that look like FLA's, and on FLA itself if it is here."""

import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import kda.torch  # noqa: E402


@pytest.fixture
def zoo(monkeypatch):
    """Modules fla.ops and fla.layers in miniature, and a model of theirs."""
    ops = types.ModuleType("fla.mini_ops")
    exec("def chunk_kda(*a, **k): return 'theirs'\ndef fused_recurrent_kda(*a, **k): return 'theirs'",
         ops.__dict__)  # fmt: skip
    layers = types.ModuleType("fla.mini_layers")
    layers.__dict__.update(torch=torch, chunk_kda=ops.chunk_kda, renamed=ops.fused_recurrent_kda)
    exec(
        "class Layer(torch.nn.Module):\n"
        "    def forward(self, *a, **k): return chunk_kda(*a, **k)\n",
        layers.__dict__,
    )
    for module in (ops, layers):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return ops, layers, torch.nn.Sequential(layers.Layer())


def test_a_model_is_patched_and_put_back(zoo):
    ops, layers, model = zoo
    theirs = layers.chunk_kda
    with kda.torch.patch_fla(model, fallback=False) as patch:
        assert patch.replaced == ["fla.mini_layers.chunk_kda", "fla.mini_layers.renamed"]
        assert str(patch) == "kda replaced " + ", ".join(patch.replaced)
        assert layers.chunk_kda is kda.torch.chunk_kda
        assert layers.renamed is kda.torch.fused_recurrent_kda
        assert ops.chunk_kda is theirs  # not where the model calls it
        assert not kda.torch.patch_fla(model).replaced  # already
    assert layers.chunk_kda is theirs
    assert "nothing" in str(kda.torch.patch_fla(torch.nn.Linear(1, 1)))


@pytest.mark.parametrize("fallback", [False, True])
def test_a_model_whose_betas_are_sigmoids(zoo, monkeypatch, fallback):
    _, layers, model = zoo
    seen = {}
    monkeypatch.setitem(
        kda.torch.patch.OURS, "chunk_kda", lambda *_, **keywords: seen.update(keywords) or "ours"
    )
    with kda.torch.patch_fla(model, fallback=fallback, beta_at_most_one=True):
        assert model[0](*[torch.zeros(1, 4, 1, 8)] * 4, torch.zeros(1, 4, 1)) == "ours"
        assert seen["beta_at_most_one"] is True
        assert not kda.torch.patch_fla(model).replaced  # already
    seen.clear()
    with kda.torch.patch_fla(model, fallback=fallback):
        assert model[0](*[torch.zeros(1, 4, 1, 8)] * 4, torch.zeros(1, 4, 1)) == "ours"
        assert "beta_at_most_one" not in seen


def test_without_a_model_everything_loaded_is_patched(zoo):
    ops, layers, _ = zoo
    with kda.torch.patch_fla() as patch:
        assert {"fla.mini_ops.chunk_kda", "fla.mini_layers.chunk_kda"} <= set(patch.replaced)
        assert not any(name.startswith("kda.") for name in patch.replaced)


def test_what_is_not_there_yet_falls_back_and_says_so_once(zoo):
    _, layers, model = zoo
    x = torch.zeros(1, 4, 1, 8)
    arguments = (x, x, x, x.requires_grad_(), x[..., 0])
    with kda.torch.patch_fla(model):
        with pytest.warns(UserWarning, match="FLA's chunk_kda runs instead of kda's.*gradient"):
            assert model[0](*arguments) == "theirs"
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert model[0](*arguments) == "theirs"
        with torch.no_grad(), pytest.raises(ValueError, match="on cpu"):
            model[0](*arguments)
    with kda.torch.patch_fla(model, fallback=False), pytest.raises(NotImplementedError):
        model[0](*arguments)


# The bug: what patch_fla puts in FLA's place carried FLA's own torch.compiler.disable, so that a
# patched model broke torch.compile's graph at every call.
@pytest.mark.parametrize("fallback", [False, True])
def test_a_patched_model_compiles_to_one_graph(zoo, fallback):
    ops, layers, model = zoo
    theirs = torch.compiler.disable(ops.chunk_kda)
    layers.chunk_kda = theirs
    new = lambda *shape: torch.zeros(shape, dtype=torch.bfloat16, device="meta")  # noqa: E731
    x = (*(new(1, 8, 2, 16) for _ in range(4)), new(1, 8, 2))
    with kda.torch.patch_fla(model, fallback=fallback), torch.no_grad():
        assert layers.chunk_kda is not theirs
        assert layers.chunk_kda.__name__ == "chunk_kda"
        torch.compiler.reset()
        o, state = torch.compile(model[0], fullgraph=True, backend="eager")(*x)
    assert o.shape == (1, 8, 2, 16) and state is None
    assert layers.chunk_kda is theirs


def test_flas_own_layer():
    pytest.importorskip("fla.layers.kda", reason="flash-linear-attention is not installed")
    from fla.layers.kda import KimiDeltaAttention

    model = KimiDeltaAttention(hidden_size=64, head_dim=32, num_heads=2)
    with kda.torch.patch_fla(model) as patch:
        assert "fla.layers.kda.chunk_kda" in patch.replaced
        assert "fla.layers.kda.fused_recurrent_kda" in patch.replaced
