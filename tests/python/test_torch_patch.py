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
        assert not kda.torch.patch_fla(model, fallback=False).replaced  # already
    assert layers.chunk_kda is theirs
    with pytest.warns(UserWarning, match="^kda replaced nothing"):
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
        again = kda.torch.patch_fla(model, fallback=fallback, beta_at_most_one=True)
        assert not again.replaced  # already
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
@pytest.mark.parametrize("words", [{}, {"beta_at_most_one": True}])
@pytest.mark.parametrize("fallback", [False, True])
def test_a_patched_model_compiles_to_one_graph(zoo, fallback, words):
    ops, layers, model = zoo
    theirs = torch.compiler.disable(ops.chunk_kda)
    layers.chunk_kda = theirs
    new = lambda *shape: torch.zeros(shape, dtype=torch.bfloat16, device="meta")  # noqa: E731
    x = (*(new(1, 8, 2, 16) for _ in range(4)), new(1, 8, 2))
    with kda.torch.patch_fla(model, fallback=fallback, **words), torch.no_grad():
        assert layers.chunk_kda is not theirs
        if fallback or not words:
            assert layers.chunk_kda.__name__ == "chunk_kda"
        torch.compiler.reset()
        o, state = torch.compile(model[0], fullgraph=True, backend="eager")(*x)
    assert o.shape == (1, 8, 2, 16) and state is None
    assert layers.chunk_kda is theirs


# A decorator as transformers', which keeps FLA's function in a closure from when it is imported, and
# as that of the package kernels, which makes a layer of that.
MODELING = """
def from_fla(torch_function):
    implementation = ops.chunk_kda
    @functools.wraps(torch_function)
    def wrapped(*a, **k): return implementation(*a, **k)
    return wrapped
def as_layer(function):
    class Func(torch.nn.Module):
        def forward(self, *a, **k): return function(*a, **k)
    return Func()
@as_layer
@from_fla
def in_a_layer(*a, **k): return "torch's"
@from_fla
def in_a_closure(*a, **k): return "torch's"
bound = functools.partial(ops.chunk_kda, safe_gate=False)
class Layer(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call
    def forward(self, *a, **k): return self.call(*a, **k)
    @from_fla
    def method(*a, **k): return "torch's"
"""
# What a layer's class holds goes by the class.
HELD = [f"zoo.modeling.{name}" for name in ("in_a_layer", "in_a_closure", "bound", "Layer")]


@pytest.fixture
def modeling(zoo, monkeypatch):
    """A function that imports a modeling file of such decorators, which names nothing of FLA's."""
    ops, *_ = zoo
    # As FLA's is: a closure of its own holds the one inside, which is no caller's to swap.
    ops.chunk_kda = torch.compiler.disable(ops.chunk_kda)

    def imported():
        module = types.ModuleType("zoo.modeling")
        module.__dict__.update(torch=torch, functools=functools, ops=ops)
        exec(MODELING, module.__dict__)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return module

    def ours(*arguments, **words):
        if not arguments:
            raise NotImplementedError("no arguments")
        return "ours"

    monkeypatch.setitem(kda.torch.patch.OURS, "chunk_kda", ours)
    return imported


def answers_of(module, *arguments):
    calls = module.in_a_layer, module.in_a_closure, module.bound, module.Layer.method
    return {call(*arguments) for call in calls}


# The bug: of transformers' Kimi Linear nothing was replaced, as no module names FLA's function, and
# nothing said so.
@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("by_model", [False, True])
def test_what_closures_hold_is_patched_and_put_back(modeling, by_model, fallback):
    module = modeling()
    model = torch.nn.Sequential(module.Layer(module.in_a_closure)) if by_model else None
    for _ in range(2):  # once put back it can be patched again
        assert answers_of(module, 1) == {"theirs"}
        with kda.torch.patch_fla(model, fallback=fallback) as patch:
            assert {n for n in patch.replaced if n.startswith("zoo")} == set(HELD)
            assert answers_of(module, 1) == {"ours"}
            if fallback:
                with pytest.warns(UserWarning, match="FLA's chunk_kda runs instead"):
                    assert answers_of(module) == {"theirs"}
        assert answers_of(module, 1) == {"theirs"}


def test_what_layers_hold_is_patched_and_put_back(modeling, zoo):
    module = modeling()
    layer = module.Layer(zoo[0].chunk_kda)
    with kda.torch.patch_fla(torch.nn.Sequential(layer, module.Layer(layer.call))) as patch:
        assert patch.replaced.count("zoo.modeling.Layer.call") == 1
        assert layer(1) == "ours"
    assert layer(1) == "theirs"


# The bug: what was imported after patch_fla() kept kda's function when all was put back.
@pytest.mark.parametrize("words", [{}, {"fallback": False, "beta_at_most_one": True}])
def test_what_was_imported_since_is_put_back_too(modeling, words):
    with kda.torch.patch_fla(**words):
        module = modeling()
        module.named = module.ops.chunk_kda
        assert {module.named(1), *answers_of(module, 1)} - {"ours"} == set()
    module.bound = None  # a partial of ours that we did not make
    assert {module.named(1), module.in_a_layer(1), module.in_a_closure(1)} == {"theirs"}


WORDS = [{"fallback": f, "beta_at_most_one": b} for f in (True, False) for b in (True, False)]


@pytest.fixture
def told(zoo, monkeypatch):
    """By which words a function at hand was made: of FLA's none."""

    def ours(*arguments, **keywords):
        if arguments:
            raise NotImplementedError("arguments")
        return keywords

    monkeypatch.setitem(kda.torch.patch.OURS, "chunk_kda", ours)

    def words_of(call):
        if call() == "theirs":
            return None
        try:
            fallback = call(1) == "theirs"
        except NotImplementedError:
            fallback = False
        return {"fallback": fallback, "beta_at_most_one": call().get("beta_at_most_one", False)}

    return words_of


# Bug: of a second patch_fla with other words nothing held, and nothing said so.
@pytest.mark.filterwarnings("ignore:FLA's chunk_kda")
@pytest.mark.parametrize("first", WORDS)
@pytest.mark.parametrize("second", WORDS)
def test_the_later_words_hold(zoo, told, first, second):
    _, layers, model = zoo
    theirs = layers.chunk_kda
    with kda.torch.patch_fla(model, **first):
        assert told(layers.chunk_kda) == first
        with kda.torch.patch_fla(model, **second) as patch:
            assert told(layers.chunk_kda) == second
            assert ("fla.mini_layers.chunk_kda" in patch.replaced) == (first != second)
        assert told(layers.chunk_kda) == first
    assert layers.chunk_kda is theirs
    # Undone in the order they were made in, or the second never.
    patches = [kda.torch.patch_fla(model, **words) for words in (first, second)]
    for patch in patches:
        patch.undo()
        assert layers.chunk_kda is theirs


@pytest.mark.filterwarnings("ignore:FLA's chunk_kda")
def test_a_third_patch_that_outlives_the_second(zoo, told):
    _, layers, model = zoo
    theirs = layers.chunk_kda
    patches = [kda.torch.patch_fla(model, **words) for words in WORDS[:3]]
    assert told(layers.chunk_kda) == WORDS[2]
    for n, words in ((1, WORDS[0]), (2, WORDS[0]), (0, None), (0, None)):
        patches[n].undo()
        assert told(layers.chunk_kda) == words
    assert layers.chunk_kda is theirs


# The same of what closures and partials hold, and of what was imported between the two.
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_later_words_hold_of_what_was_imported_between(modeling, order):
    before = modeling()
    patches = [kda.torch.patch_fla()]
    between = modeling()
    between.named = between.ops.chunk_kda
    patches.append(kda.torch.patch_fla(fallback=False))
    assert {f"zoo.modeling.{x}" for x in ("named", "in_a_closure")} <= set(patches[1].replaced)
    for call in (between.named, between.in_a_closure, between.bound, before.ops.chunk_kda):
        with pytest.raises(NotImplementedError):
            call()
    for n in order:
        patches[n].undo()
    assert {between.named(1), before.ops.chunk_kda(1)} == {"theirs"}
    assert answers_of(between, 1) == {"theirs"}


def test_a_users_own_call_of_kda_is_no_patch(zoo):
    _, layers, model = zoo
    layers.mine = kda.torch.chunk_kda
    with kda.torch.patch_fla(model, fallback=False):
        layers.wrapped = functools.wraps(layers.chunk_kda)(lambda: "wrapped")
        with kda.torch.patch_fla(model) as patch:
            assert not {"fla.mini_layers.mine", "fla.mini_layers.wrapped"} & set(patch.replaced)
            layers.wrapped = functools.wraps(layers.chunk_kda)(lambda: "wrapped")
            kda.torch.patch_fla(model, beta_at_most_one=True).undo()
            assert layers.wrapped() == "wrapped"
    assert layers.mine is kda.torch.chunk_kda and layers.wrapped() == "wrapped"


def test_a_patch_that_is_dropped_keeps_no_layer_alive(modeling):
    import gc
    import weakref

    module = modeling()
    layer = module.Layer(module.ops.chunk_kda)
    assert "zoo.modeling.Layer.call" in kda.torch.patch_fla(torch.nn.Sequential(layer)).replaced
    seen = weakref.ref(layer)
    del layer
    gc.collect()
    assert seen() is None
    kda.torch.patch_fla(fallback=False).undo()


def test_a_warning_says_that_nothing_was_replaced(modeling, recwarn):
    layer = modeling().Layer(None)
    with kda.torch.patch_fla():
        kda.torch.patch_fla(torch.nn.Sequential(layer))  # was before
    assert not [w for w in recwarn if "replaced nothing" in str(w.message)]
    with pytest.warns(UserWarning, match="^kda replaced nothing: no call of FLA's KDA was found"):
        kda.torch.patch_fla(torch.nn.Linear(1, 1))


def test_transformers_own_kimi_linear():
    pytest.importorskip("fla.ops.kda", reason="FLA is not installed")
    name = "transformers.models.kimi_linear.modeling_kimi_linear"
    theirs = pytest.importorskip(name, reason="no transformers with Kimi Linear")
    layer = torch.nn.Module.__new__(theirs.KimiLinearDeltaAttention)
    torch.nn.Module.__init__(layer)
    with kda.torch.patch_fla(layer) as patch:
        assert set(patch.replaced) == {
            f"{name}.chunk_kimi_delta_attention", f"{name}.recurrent_kimi_delta_attention",
        }  # fmt: skip
        x = torch.zeros(1, 8, 2, 16, dtype=torch.bfloat16)
        with torch.no_grad(), pytest.raises(ValueError, match="q is on cpu; kda runs on CUDA"):
            theirs.chunk_kimi_delta_attention(x, x, x, g=x, beta=x[..., 0])


def test_flas_own_layer():
    pytest.importorskip("fla.layers.kda", reason="flash-linear-attention is not installed")
    from fla.layers.kda import KimiDeltaAttention

    model = KimiDeltaAttention(hidden_size=64, head_dim=32, num_heads=2)
    with kda.torch.patch_fla(model) as patch:
        assert "fla.layers.kda.chunk_kda" in patch.replaced
        assert "fla.layers.kda.fused_recurrent_kda" in patch.replaced
