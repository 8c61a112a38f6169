"""kda.torch.patch_fla on a model of modules that look like FLA's, and on FLA itself if it is here."""

import functools
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


class Proxy:
    """As flask.request is outside of a request: whatever it is asked for raises."""

    def __getattribute__(self, name):
        raise RuntimeError(f"working outside of request context: {name}")

    def __call__(self):
        pass


# The bug: every callable of every module was asked for its name, which raised for flask.request and
# left some modules patched, with no Patch to undo it.
def test_proxies_are_asked_for_nothing(zoo, monkeypatch):
    ops, layers, model = zoo
    theirs = layers.chunk_kda
    layers.request = ops.request = Proxy()
    monkeypatch.setitem(sys.modules, "a proxy for a module", Proxy())
    for given in (None, model):
        with kda.torch.patch_fla(given) as patch:
            assert "fla.mini_layers.chunk_kda" in patch.replaced
            assert layers.chunk_kda is not theirs
        assert layers.chunk_kda is theirs


# The same bug's other half: what had been swapped stayed so.
def test_a_patch_that_fails_is_undone(zoo, monkeypatch):
    class Frozen(types.ModuleType):
        def __setattr__(self, name, value):
            raise RuntimeError(f"{self.__name__} is frozen")

    ops, layers, model = zoo
    before = {module: dict(vars(module)) for module in (ops, layers)}
    frozen = Frozen("zoo_frozen")
    vars(frozen).update(torch=torch, chunk_kda=ops.chunk_kda)
    exec("class Layer(torch.nn.Module): pass", vars(frozen))
    monkeypatch.setitem(sys.modules, frozen.__name__, frozen)
    for given in (None, torch.nn.Sequential(model, frozen.Layer())):
        with pytest.raises(RuntimeError, match="zoo_frozen is frozen"):
            kda.torch.patch_fla(given)
        assert {module: dict(vars(module)) for module in before} == before


def test_wrapped_functions_are_flas_too(zoo):
    _, layers, model = zoo
    theirs = layers.chunk_kda
    by_hand = functools.wraps(theirs)(lambda *a, **k: theirs(*a, **k))
    for layers.chunk_kda in (torch.compiler.disable(theirs), torch.compile(theirs), by_hand):
        with kda.torch.patch_fla(model) as patch:
            assert "fla.mini_layers.chunk_kda" in patch.replaced


# The bug: types of q, k and v that are not one were found by the operator alone, so that a compiled
# model raised where an eager one runs FLA's.
def test_a_compiled_model_falls_back_too(zoo):
    _, layers, model = zoo
    new = lambda *shape: torch.zeros(shape, dtype=torch.bfloat16, device="meta")  # noqa: E731
    q, k, v, g, beta = (*(new(1, 8, 2, 16) for _ in range(4)), new(1, 8, 2))
    torch.compiler.reset()
    with kda.torch.patch_fla(model), torch.no_grad():
        compiled = torch.compile(model[0], backend="eager")
        with pytest.warns(UserWarning, match="FLA's chunk_kda runs.* v is torch.float32 and q is"):
            assert compiled(q, k, v.float(), g, beta) == "theirs"
        assert compiled(q, k, v, g, beta)[0].shape == v.shape
        assert compiled(q, k, v.float(), g, beta) == "theirs"


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
