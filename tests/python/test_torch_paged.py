"""The paged calls: FLA's signature, what they refuse, and what torch.compile sees.  No GPU."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from kda.torch import (  # noqa: E402
    _call,
    _pool,
    fused_recurrent_kda,
    fused_recurrent_kda_fwd,
    paged_kda,
)

NOTHING = inspect.Parameter.empty
FLAS = [
    *((name, NOTHING) for name in ("q", "k", "v", "g", "beta")),
    ("A_log", None),
    ("dt_bias", None),
    ("initial_state", None),
    ("scale", None),
    ("output_final_state", False),
    ("inplace_final_state", True),
    ("state_v_first", False),
    ("cu_seqlens", None),
    ("ssm_state_indices", None),
    ("num_accepted_tokens", None),
    ("use_qk_l2norm_in_kernel", False),
    ("use_gate_in_kernel", False),
    ("use_beta_sigmoid_in_kernel", False),
    ("allow_neg_eigval", False),
    ("lower_bound", None),
    ("out", None),
    ("kwargs", NOTHING),
]


def parameters(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


def test_the_signature_is_flas():
    assert parameters(fused_recurrent_kda_fwd) == FLAS
    fla = pytest.importorskip("fla.ops.kda.fused_recurrent", reason="fla-core is not installed")
    assert parameters(fla.fused_recurrent_kda_fwd) == FLAS


def inputs(B=2, T=1, device="cpu"):
    new = lambda *shape: torch.zeros(shape, dtype=torch.bfloat16, device=device)  # noqa: E731
    return (
        new(B, T, 2, 16),
        new(B, T, 2, 16),
        new(B, T, 2, 16),
        new(B, T, 2, 16),
        new(B, T, 2),
    )


STATES = (2, 2, 16, 16)
POOL = torch.zeros(5, 2, 16, 16)
TWO = torch.zeros(2, dtype=torch.int32)
TABLE = torch.zeros(2, 3, dtype=torch.int32)


@pytest.mark.parametrize(
    "kind, words, pool, slots, paging",
    [
        (
            NotImplementedError,
            "float32 or bfloat16",
            POOL.half(),
            (TWO, None, None, None),
            (),
        ),
        (
            ValueError,
            r"it is \[slots, 2, 16, 16\]",
            POOL[:, :1],
            (TWO, None, None, None),
            (),
        ),
        # The bug: the distance 0 was the library's word for contiguous slots, so that states were
        # read and written past the pool's end.
        (
            ValueError,
            "one slot's memory for all; each slot needs its own",
            POOL[:1].expand(5, -1, -1, -1),
            (TWO, None, None, None),
            (),
        ),
        (
            ValueError,
            "each slot must be contiguous",
            POOL.mT,
            (TWO, None, None, None),
            (),
        ),
        (
            ValueError,
            "indices is torch.float32",
            POOL,
            (TWO.float(), None, None, None),
            (),
        ),
        (ValueError, "with N = 2", POOL, (TWO[:1], None, None, None), ()),
        (ValueError, "initial_indices is", POOL, (TWO, TABLE, None, None), ()),
        (
            ValueError,
            "num_accepted_tokens needs a table",
            POOL,
            (TWO, None, TWO, None),
            (),
        ),
        (
            ValueError,
            "committed_tokens is torch.float32; counts",
            POOL,
            (TWO, None, None, None, TWO.float()),
            (),
        ),
        (ValueError, "indices are \\[N\\]", POOL, (TABLE, None, None, None, TWO), ()),
        (
            ValueError,
            "checkpoint_tokens = 64; a",
            POOL,
            (TWO, None, None, TABLE, TWO),
            (64,),
        ),
        # The bug: this came as far as the library, which named fields that the caller has not.
        (
            ValueError,
            "num_accepted_tokens and initial_indices are given and indices are \\[2, 1\\]",
            POOL,
            (TABLE[:, :1], TWO, TWO, None),
            (),
        ),
        (ValueError, "checkpoints are missing", POOL, (TWO, None, None, None), (64,)),
        (ValueError, "checkpoints are given", POOL, (TWO, None, None, TABLE), ()),
    ],
)
def test_refusals_of_slots(kind, words, pool, slots, paging):
    with pytest.raises(kind, match=words):
        _pool.check(_pool.Paging(*paging), pool, _pool.Slots(*slots), STATES)
    _pool.check(_pool.Paging(), POOL, _pool.Slots(TABLE, TWO, TWO, None), STATES)


# The bug: with inplace_final_state=False accepted tokens without a table raised an IndexError, and
# what else does not fit a RuntimeError, or nothing.
@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize(
    "words, changed",
    [
        (r"num_accepted_tokens needs a table.* indices are \[2\]", {"num_accepted_tokens": TWO}),
        (r"num_accepted_tokens is \[3\]; it is \[N\] with N = 2",
         {"ssm_state_indices": TABLE, "num_accepted_tokens": TABLE[0]}),
        (r"num_accepted_tokens is \[2, 3\]",
         {"ssm_state_indices": TABLE, "num_accepted_tokens": TABLE}),
        (r"indices is \[1\]; it is .* with N = 2", {"ssm_state_indices": TWO[:1]}),
        (r"indices are \[2, 0\]; each sequence has a slot", {"ssm_state_indices": TABLE[:, :0]}),
        ("indices is torch.float32", {"ssm_state_indices": TWO.float()}),
        (r"the state pool is \[5, 1, 16, 16\]; it is \[slots, 2, 16, 16\]",
         {"initial_state": POOL[:, :1]}),
        (r"the state pool is \[0, 1, 16, 16\]", {"initial_state": POOL[:0, :1]}),
    ],
)  # fmt: skip
def test_both_ways_refuse_the_same_slots(monkeypatch, inplace, words, changed):
    monkeypatch.setattr(_call, "check", lambda *_: None)  # CPU tensors would be refused first
    given = {"initial_state": POOL, "ssm_state_indices": TWO, **changed}
    with torch.no_grad(), pytest.raises(ValueError, match=words):
        fused_recurrent_kda_fwd(*inputs(), **given, inplace_final_state=inplace)


# The bug: of cu_seqlens without an element the states were empty, or torch refused a negative size;
# without a dimension an IndexError.
@pytest.mark.parametrize("words", [{"inplace_final_state": False}, {}])
@pytest.mark.parametrize("cu_seqlens", [torch.zeros(0).long(), torch.tensor(3)])
def test_packed_sequences_have_ends(words, cu_seqlens):
    for slots in (None, TWO):
        with torch.no_grad(), pytest.raises(ValueError, match=r"cu_seqlens is .* \[N \+ 1\]"):
            fused_recurrent_kda_fwd(*inputs(B=1, T=8), initial_state=POOL, cu_seqlens=cu_seqlens,
                                    ssm_state_indices=slots, **words)  # fmt: skip
    with torch.no_grad(), pytest.raises(ValueError, match=r"cu_seqlens is .* \[N \+ 1\]"):
        paged_kda(*inputs(B=1, T=8), POOL, TWO, cu_seqlens=cu_seqlens)


# Bug: the form that leaves its pool read shapes before it looked at what it was given: an
# IndexError or an AttributeError, which named nothing.
@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize(
    "kind, words, changed",
    [
        (ValueError, r"q has the shape \[2, 2, 16\] and v", {"q": inputs()[0][:, 0]}),
        (ValueError, r"and v \[2, 2, 16\]; they are", {"v": inputs()[2][:, 0]}),
        (TypeError, "^cu_seqlens is a list; pass a torch.Tensor", {"cu_seqlens": [0, 1]}),
        (TypeError, "^ssm_state_indices is a list", {"ssm_state_indices": [0, 1]}),
        (TypeError, "^num_accepted_tokens is a list", {"num_accepted_tokens": [0, 1]}),
        *((ValueError, f"^{name} is None; pass a torch.Tensor", {name: None})
          for name in ("q", "k", "v", "g", "beta")),
    ],
)  # fmt: skip
def test_what_is_given_is_looked_at_before_its_shape(kind, words, changed, inplace):
    given = dict(zip(("q", "k", "v", "g", "beta"), inputs()), ssm_state_indices=TABLE)
    with torch.no_grad(), pytest.raises(kind, match=words):
        fused_recurrent_kda_fwd(
            **{**given, "initial_state": POOL, **changed}, inplace_final_state=inplace
        )


def test_refusals_of_calls():
    x = inputs()
    with pytest.raises(AssertionError, match="needs initial_state"):
        fused_recurrent_kda_fwd(*x)
    with pytest.raises(ValueError, match="committed_tokens is given without ssm_state_indices"):
        fused_recurrent_kda(*x, committed_tokens=TWO)
    with pytest.raises(ValueError, match="committed_tokens is given and indices are"):
        fused_recurrent_kda_fwd(
            *x,
            initial_state=POOL,
            inplace_final_state=False,
            ssm_state_indices=TABLE,
            committed_tokens=TWO,
        )
    with torch.no_grad():
        with pytest.raises(AssertionError, match=r"out is \[1\]"):
            paged_kda(*x, POOL, TWO, out=torch.zeros(1))
        # The bug: a bare AssertionError, of a check that slots have a pool.
        with pytest.raises(ValueError, match="state_pool is None; states are read"):
            paged_kda(*x, None, TWO)
        with pytest.raises(ValueError, match="ssm_state_indices is None; each sequence has a slot"):
            paged_kda(*x, POOL, None)
        with pytest.raises(ValueError, match="out is torch.float32"):
            paged_kda(*x, POOL, TWO, out=torch.zeros(2, 1, 2, 16))
        with pytest.raises(ValueError, match="allow_neg_eigval=True needs"):
            paged_kda(*x, POOL, TWO, allow_neg_eigval=True)
        with pytest.raises(ValueError, match="q is on cpu; kda runs on CUDA"):
            fused_recurrent_kda(*x, initial_state=POOL, ssm_state_indices=TWO)
        with pytest.raises(NotImplementedError, match="float32 or bfloat16"):
            fused_recurrent_kda_fwd(*x, initial_state=POOL[:2].half())
    with pytest.raises(NotImplementedError, match="initial_state requires a gradient"):
        paged_kda(*x, torch.zeros(5, 2, 16, 16, requires_grad=True), TWO)


# The bug: compiled calls looked at the shape of out alone, and kernels wrote past its end where its
# type is smaller or its rows lie apart.
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize(
    "words, out",
    [
        ("out is torch.float16", torch.empty(2, 1, 2, 16, dtype=torch.float16, device="meta")),
        (r"with strides \[32, 32, 1, 2\]",
         torch.empty(2, 1, 16, 2, dtype=torch.bfloat16, device="meta").mT),
        ("out is torch.bfloat16 on cpu", torch.empty(2, 1, 2, 16, dtype=torch.bfloat16)),
    ],
)  # fmt: skip
def test_a_compiled_call_checks_out(pooled, words, out):
    torch.compiler.reset()
    slots = TWO.to("meta") if pooled else None

    @torch.compile(backend="eager")
    def layer(x, state, out):
        o, _ = fused_recurrent_kda_fwd(*x, initial_state=state, ssm_state_indices=slots, out=out)
        return o

    state = torch.zeros(STATES, device="meta")
    with torch.inference_mode(), pytest.raises(ValueError, match=words):
        layer(inputs(device="meta"), state, out)
    with torch.inference_mode():
        good = torch.empty(2, 1, 2, 16, dtype=torch.bfloat16, device="meta")
        assert layer(inputs(device="meta"), state, good).shape == good.shape


def test_only_what_the_library_would_refuse_is_copied():
    wide = torch.zeros(2, 8, dtype=torch.int32)
    slots = _pool.Slots(wide[:, :3], TWO.long(), wide[:, 0], wide[:, ::2])
    r = _pool.repaired(slots)
    assert r.indices.data_ptr() == wide.data_ptr() and r.indices.stride(0) == 8
    assert r.initial_indices.dtype == torch.int32
    assert r.num_accepted_tokens.is_contiguous() and r.checkpoints.is_contiguous()
    assert _pool.need_copies(slots) and not _pool.need_copies(r)
    far = torch.tensor([2**40, -(2**40)])  # past the end, and before it
    slots = _pool.Slots(TWO.int(), None, None, None, far)
    assert _pool.repaired(slots).committed_tokens.tolist() == [2**31 - 1, -1]


@pytest.fixture
def graphs():
    """Of what `kept` has compiled."""
    torch.compiler.reset()
    return []


def kept(graphs):
    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    return torch.compile(fullgraph=True, backend=keep)


def operators(graphs):
    assert len(graphs) == 1
    return [str(n.target) for n in graphs[0].graph.nodes if "kda" in str(n.target)]


@pytest.mark.parametrize("drafts, commits", [(False, False), (True, False), (False, True)])
def test_a_call_is_one_operator(graphs, drafts, commits):
    @kept(graphs)
    def layer(x, pool, slots, accepted, committed):
        o, state = fused_recurrent_kda(
            *x,
            initial_state=pool,
            ssm_state_indices=slots,
            num_accepted_tokens=accepted,
            committed_tokens=committed,
        )
        return o + 1, state

    with torch.inference_mode():
        x = inputs(T=3, device="meta")
        slots = TABLE if drafts else TWO
        accepted = TWO.to("meta") if drafts else None
        committed = TWO.to("meta") if commits else None
        o, state = layer(x, POOL.to("meta"), slots.to("meta"), accepted, committed)
    assert o.shape == (2, 3, 2, 16) and state.shape == POOL.shape
    assert operators(graphs) == ["kda.paged"]


def test_a_call_that_leaves_its_pool_is_one_operator(graphs):
    @kept(graphs)
    def layer(x, pool, slots, accepted):
        return fused_recurrent_kda_fwd(
            *x, initial_state=pool, ssm_state_indices=slots, num_accepted_tokens=accepted,
            inplace_final_state=False, output_final_state=True,
        )  # fmt: skip

    x = inputs(T=3, device="meta")
    for pool, slots, accepted in ((POOL, TABLE, TWO), (POOL, TWO, None), (POOL[:0], TABLE, TWO)):
        graphs.clear()
        with torch.inference_mode():
            given = (y if y is None else y.to("meta") for y in (pool, slots, accepted))
            o, state = layer(x, *given)
        assert o.shape == (2, 3, 2, 16) and state.shape == STATES
        assert operators(graphs) == ["kda.paged"]
