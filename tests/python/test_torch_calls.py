"""The calls of other libraries: their signatures, and everything they refuse.  No GPU."""

import ast
import ctypes
import inspect
import math
import os
import pathlib
import subprocess
import sys
import warnings

import pytest
from support import ROOT

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.autograd import forward_ad  # noqa: E402

import kda  # noqa: E402
from kda.torch import prefill as prefill_operator  # noqa: E402
from kda.torch import _call, _tensors, chunk_kda, flash_kda_fwd, fused_recurrent_kda  # noqa: E402
from kda.torch import fused_recurrent_kda_fwd, paged_kda  # noqa: E402

NOTHING = inspect.Parameter.empty

# Of fla-core 0.6.0; 0.5.2's are the same less use_graph and max_num_seqs.
CHUNK = [
    *((name, NOTHING) for name in ("q", "k", "v", "g", "beta")),
    ("scale", None),
    ("initial_state", None),
    ("output_final_state", False),
    ("use_qk_l2norm_in_kernel", False),
    ("use_gate_in_kernel", False),
    ("use_beta_sigmoid_in_kernel", False),
    ("allow_neg_eigval", False),
    ("safe_gate", False),
    ("lower_bound", None),
    ("disable_recompute", False),
    ("return_intermediate_states", False),
    ("state_v_first", False),
    ("cu_seqlens", None),
    ("cu_seqlens_cpu", None),
    ("cp_context", None),
    ("use_graph", False),
    ("max_num_seqs", None),
    ("kwargs", NOTHING),
]
RECURRENT = [
    *((name, NOTHING) for name in ("q", "k", "v", "g", "beta")),
    ("A_log", None),
    ("dt_bias", None),
    ("scale", None),
    ("initial_state", None),
    ("output_final_state", False),
    ("use_qk_l2norm_in_kernel", False),
    ("use_gate_in_kernel", False),
    ("use_beta_sigmoid_in_kernel", False),
    ("allow_neg_eigval", False),
    ("lower_bound", None),
    ("state_v_first", False),
    ("cu_seqlens", None),
    ("kwargs", NOTHING),
]
FLASH = [
    *((name, NOTHING) for name in ("q", "k", "v", "g", "beta", "scale", "out", "A_log", "dt_bias",
                                   "lower_bound")),
    ("initial_state", None),
    ("final_state", None),
    ("cu_seqlens", None),
]  # fmt: skip


def parameters(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


def test_signatures():
    assert parameters(chunk_kda) == CHUNK
    assert parameters(fused_recurrent_kda) == RECURRENT
    assert parameters(flash_kda_fwd) == FLASH


def test_signatures_are_those_of_the_fla_at_hand():
    fla = pytest.importorskip("fla.ops.kda", reason="fla-core is not installed")
    for ours, theirs in (
        (chunk_kda, fla.chunk_kda),
        (fused_recurrent_kda, fla.fused_recurrent_kda),
    ):
        ours, theirs = parameters(ours), parameters(theirs)
        assert ours == theirs or ours == [*theirs[:-1], *CHUNK[-3:-1], theirs[-1]]


def inputs(B=1, T=8, H=2, HV=2, K=16, V=16, dtype=torch.float16, device="cpu"):
    new = lambda *shape: torch.zeros(shape, dtype=dtype, device=device)  # noqa: E731
    return {
        "q": new(B, T, H, K),
        "k": new(B, T, H, K),
        "v": new(B, T, HV, V),
        "g": new(B, T, HV, K),
        "beta": new(B, T, HV),
    }


def cu(*values):
    return torch.tensor(values, dtype=torch.int64)


both = pytest.mark.parametrize("call", [chunk_kda, fused_recurrent_kda])


@both
@pytest.mark.parametrize(
    "kind, words, arguments",
    [
        (ValueError, "batch size must be 1, not 2", {**inputs(B=2), "cu_seqlens": cu(0, 8)}),
        (ValueError, "holds 3 states; cu_seqlens has 2",
         {"cu_seqlens": cu(0, 3, 8), "initial_state": torch.zeros(3, 2, 16, 16)}),
        (ValueError, "allow_neg_eigval=True needs", {"allow_neg_eigval": True}),
        (ValueError, "A_log is missing", {"use_gate_in_kernel": True}),
        (AssertionError, r"q is \[1, 8, 2, 16\] and k \[1, 8, 1, 16\]", {"k": inputs(H=1)["k"]}),
        (AssertionError, "HV = 3 value heads", inputs(HV=3)),
        # The bug: no heads were a ZeroDivisionError.
        (AssertionError, "HV = 2 value heads are no multiple of H = 0", inputs(H=0)),
        (AssertionError, "HV = 0 value heads are no multiple of H = 0", inputs(H=0, HV=0)),
        # The bug: of cu_seqlens without a dimension an IndexError, and without an element torch's
        # refusal of a negative size, or zeros.
        (ValueError, r"cu_seqlens is torch.int64 of shape \[0\]; it is whole numbers \[N \+ 1\]",
         {"cu_seqlens": cu()}),
        (ValueError, r"cu_seqlens is .* \[0\]", {"cu_seqlens": cu(), "cu_seqlens_cpu": cu()}),
        (ValueError, r"cu_seqlens is .* \[\]", {"cu_seqlens": cu(0)[0]}),
        (ValueError, r"cu_seqlens is .* \[\]",
         {"cu_seqlens": cu(0)[0], "use_graph": True, "max_num_seqs": 3}),
        (ValueError, r"cu_seqlens is .* \[1, 2\]", {"cu_seqlens": cu(0, 8)[None]}),
        (ValueError, r"cu_seqlens is .* \[0\]",
         {"cu_seqlens": cu(), "output_final_state": True}),
        (AssertionError, r"g is \[1, 8, 2, 8\]", {"g": inputs(K=8)["g"]}),
        (AssertionError, r"beta is \[1, 8, 1\]", {"beta": inputs(HV=1)["beta"]}),
        (AssertionError, r"v is \[1, 9, 2, 16\]", {"v": inputs(T=9)["v"]}),
        (ValueError, "both `|state_v_first and transpose_state_layout",
         {"state_v_first": True, "transpose_state_layout": True}),
        (ValueError, "q is on cpu; kda runs on CUDA", {}),
    ],
)  # fmt: skip
def test_refusals_that_both_share(call, kind, words, arguments):
    with pytest.raises(kind, match=words):
        call(**{**inputs(), **arguments})


class Shaped:
    """With a shape as NumPy's and JAX's arrays have, but no tensor."""

    shape, dtype = (2,), "int64"


# The bug: 'list' object has no attribute 'shape', and nothing said of what.
@pytest.mark.parametrize(
    "call", [chunk_kda, fused_recurrent_kda, fused_recurrent_kda_fwd, flash_kda_fwd, paged_kda]
)
@pytest.mark.parametrize("other", [[0, 8], Shaped()], ids=["list", "array"])
@pytest.mark.parametrize("name", ["q", "beta", "A_log", "cu_seqlens", "state"])
def test_what_is_no_tensor_is_named(call, other, name):
    given = {**inputs(K=128, V=128), "A_log": torch.zeros(2), "cu_seqlens": cu(0, 8)}
    state = torch.zeros(1, 2, 128, 128)
    if name == "state":
        name = "state_pool" if call is paged_kda else "initial_state"
    said = name.replace("state_pool", "the state pool")
    if call is flash_kda_fwd:
        out = torch.zeros_like(given["v"])
        given.update(scale=1.0, out=out, dt_bias=torch.zeros(2, 128), lower_bound=-5.0)
    else:
        given.update(use_gate_in_kernel=True, lower_bound=-5.0)
    if call is paged_kda:
        given.update(state_pool=state, ssm_state_indices=torch.zeros(1, dtype=torch.int64))
    elif call is fused_recurrent_kda_fwd:
        given.update(initial_state=state)
    given[name] = other
    with pytest.raises(TypeError, match=f"^{said} is a "):
        call(**given)


# Bug: 'NoneType' object has no attribute 'shape', and nothing said of what.
@pytest.mark.parametrize(
    "call", [chunk_kda, fused_recurrent_kda, fused_recurrent_kda_fwd, flash_kda_fwd, paged_kda]
)
@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta", "ssm_state_indices", "out"])
def test_what_is_none_is_named(call, name):
    given = inputs()
    if call is flash_kda_fwd:
        given.update(flash())
    elif call in (fused_recurrent_kda_fwd, paged_kda):
        pool = "state_pool" if call is paged_kda else "initial_state"
        given.update({pool: torch.zeros(1, 2, 16, 16), "ssm_state_indices": cu(0)})
    may_be = {"ssm_state_indices": call is not paged_kda, "out": call is not flash_kda_fwd}
    if may_be.get(name):
        return
    for _ in range(2):
        with torch.no_grad(), pytest.raises((ValueError, RuntimeError), match=f"^{name} is None; "):
            call(**{**given, name: None})


# Bug: 'list' object has no attribute 'dim'.
def test_cu_seqlens_of_a_graph_is_a_tensor():
    with pytest.raises(TypeError, match="^cu_seqlens is a list; pass a torch.Tensor"):
        chunk_kda(**inputs(), cu_seqlens=[0, 8], use_graph=True, max_num_seqs=1)


@pytest.mark.parametrize("name", ["ssm_state_indices", "checkpoint_indices", "committed_tokens"])
def test_slots_that_are_no_tensor_are_named(name):
    given = {"ssm_state_indices": torch.zeros(1, dtype=torch.int64), name: [0]}
    with pytest.raises(TypeError, match=f"^{name} is a list; pass a torch.Tensor"):
        paged_kda(**inputs(), state_pool=torch.zeros(1, 2, 16, 16), **given)


@pytest.mark.parametrize(
    "kind, words, arguments",
    [
        (AssertionError, "initial_state is torch.float16",
         {"initial_state": torch.zeros(1, 2, 16, 16).half()}),
        (ValueError, "chunk_size = 16", {"chunk_size": 16}),
        (ValueError, "lower_bound is missing",
         {"safe_gate": True, "use_gate_in_kernel": True, "A_log": torch.zeros(2)}),
        (ValueError, r"lower_bound = -6.0; safe_gate needs it in \[-5, 0\)",
         {"safe_gate": True, "use_gate_in_kernel": True, "lower_bound": -6}),
        (ValueError, r"lower_bound = 0.0; safe_gate",
         {"safe_gate": True, "use_gate_in_kernel": True, "lower_bound": 0}),
        (AssertionError, "K = 320", inputs(K=320)),
        (AssertionError, "max_num_seqs = 3",
         {"cu_seqlens": cu(0, 8), "use_graph": True, "max_num_seqs": 3}),
        (NotImplementedError, "context parallelism", {"cp_context": object()}),
    ],
)  # fmt: skip
def test_refusals_of_chunk_kda(kind, words, arguments):
    with pytest.raises(kind, match=words):
        chunk_kda(**{**inputs(), **arguments})


@pytest.mark.parametrize(
    "kind, words, arguments",
    [
        (NotImplementedError, "K = 320", inputs(K=320)),
        (NotImplementedError, "a beta for each value channel", {"beta": torch.zeros(1, 8, 2, 16)}),
    ],
)  # fmt: skip
def test_refusals_of_fused_recurrent_kda(kind, words, arguments):
    with pytest.raises(kind, match=words):
        fused_recurrent_kda(**{**inputs(), **arguments})


@both
def test_unknown_keywords_are_ignored_as_fla_does(call):
    with pytest.raises(ValueError, match="q is on cpu"):
        call(**inputs(), nonesuch=1)


@both
def test_the_old_name_of_state_v_first_warns(call):
    with pytest.warns(DeprecationWarning, match="old name of state_v_first"):
        with pytest.raises(ValueError, match=r"are \[1, 2, 12, 16\]|q is on cpu"):
            call(**inputs(V=12), transpose_state_layout=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="q is on cpu"):
            call(**inputs(), state_v_first=True)


@both
def test_gradients_are_refused_and_not_dropped(call):
    arguments = inputs()
    arguments["v"].requires_grad_()
    with pytest.raises(NotImplementedError, match="v requires a gradient.*inference_mode"):
        call(**arguments)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), pytest.raises(ValueError, match="q is on cpu"):
            call(**arguments)


def flash(**changed):
    x = inputs(K=128, V=128, dtype=torch.bfloat16, device="meta")
    return {
        **x,
        "scale": 1.0,
        "out": torch.empty_like(x["v"]),
        "A_log": torch.zeros(2, device="meta"),
        "dt_bias": torch.zeros(2, 128, device="meta"),
        "lower_bound": -5.0,
        **changed,
    }


def meta(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    "words, changed",
    [
        ("q must be on a CUDA device", {"q": inputs(K=128)["q"]}),
        ("q has 3 dimensions", {"q": meta(8, 2, 128)}),
        ("k is .* must be equal", {"k": meta(1, 8, 1, 128, dtype=torch.bfloat16)}),
        ("v has 2 heads, no multiple of q's 0", {"q": meta(1, 8, 0, 128, dtype=torch.bfloat16),
                                                 "k": meta(1, 8, 0, 128, dtype=torch.bfloat16)}),
        ("g is torch.int32", {"g": meta(1, 8, 2, 128, dtype=torch.int32)}),
        ("one type", {"k": meta(1, 8, 2, 128)}),
        ("out is .* must be equal", {"out": meta(1, 8, 2, 64, dtype=torch.bfloat16)}),
        ("out must be contiguous",
         {"out": meta(1, 8, 128, 2, dtype=torch.bfloat16).transpose(2, 3)}),
        ("beta is", {"beta": meta(1, 8, 3, dtype=torch.bfloat16)}),
        ("A_log must be float32", {"A_log": meta(2, dtype=torch.bfloat16)}),
        (r"A_log is \[3\]", {"A_log": meta(3)}),
        (r"dt_bias is \[256\]", {"dt_bias": meta(256)}),
        ("initial_state is torch.float16",
         {"initial_state": meta(1, 2, 128, 128, dtype=torch.float16)}),
        (r"final_state is \[2, 2", {"final_state": meta(2, 2, 128, 128)}),
        ("must agree", {"initial_state": meta(1, 2, 128, 128),
                        "final_state": meta(1, 2, 128, 128, dtype=torch.bfloat16)}),
        ("cu_seqlens has 2 dim", {"cu_seqlens": meta(1, 2, dtype=torch.int64)}),
        ("cu_seqlens is torch.float32", {"cu_seqlens": meta(2)}),
        ("at least 2 elements", {"cu_seqlens": meta(1, dtype=torch.int64)}),
        # Bug: these were written with the other sign.
        ("out is negated lazily",
         {"out": torch._neg_view(meta(1, 8, 2, 128, dtype=torch.bfloat16))}),
        ("final_state is negated lazily", {"final_state": torch._neg_view(meta(1, 2, 128, 128))}),
    ],
)  # fmt: skip
def test_refusals_of_flash_kda_fwd(words, changed):
    with pytest.raises((RuntimeError, ValueError), match=words):
        flash_kda_fwd(**flash(**changed))


def prefill(**changed):
    x = {
        **{name: meta(2, 3, 40, 64) for name in ("q", "k", "v", "g")},
        "beta": meta(2, 3, 40),
        "chunk_size": 32,
    }
    return {**x, **changed}


def test_kda_prefill_allocates_what_it_is_not_given():
    o, w, u = torch.ops.kda_prefill.forward(**prefill())
    assert o.shape == (2, 3, 40, 64)
    assert w.shape == u.shape == (2, 3, 2, 32, 64)
    given = meta(2, 3, 2, 32, 64)
    assert torch.ops.kda_prefill.forward(**prefill(w=given))[1] is given


@pytest.mark.parametrize("tokens, chunks", [(31, 1), (32, 1), (33, 2), (64, 2)])
def test_kda_prefill_has_whole_chunks(tokens, chunks):
    x = {name: meta(2, 3, tokens, 64) for name in ("q", "k", "v", "g")}
    _, w, u = torch.ops.kda_prefill.forward(**x, beta=meta(2, 3, tokens), chunk_size=32)
    assert w.shape == u.shape == (2, 3, chunks, 32, 64)


# The bug: of what is written none was looked at.
@pytest.mark.parametrize(
    "name, shape", [("v", (40, 64)), ("o", (40, 64)), ("w", (2, 32, 64)), ("u", (2, 32, 64))]
)
def test_kda_prefill_refuses_gradients(name, shape):
    x = prefill(**{name: meta(2, 3, *shape).requires_grad_()})
    with pytest.raises(NotImplementedError, match=f"{name} requires a gradient.* no backward pass"):
        torch.ops.kda_prefill.forward(**x)
    with torch.no_grad():
        torch.ops.kda_prefill.forward(**x)


@pytest.mark.parametrize(
    "words, changed",
    [
        ("k is .*; it must be", {"k": meta(2, 3, 41, 64)}),
        ("g is torch.float16", {"g": meta(2, 3, 40, 64, dtype=torch.float16)}),
        ("v has strides", {"v": meta(2, 3, 64, 40).transpose(2, 3)}),
        ("w is .*; it must be", {"w": meta(2, 3, 2, 16, 64)}),
        ("chunk_size = 0", {"chunk_size": 0}),
        ("beta is on cpu", {"beta": torch.zeros(2, 3, 40)}),
    ],
)
def test_refusals_of_kda_prefill(words, changed):
    with pytest.raises(ValueError, match=words):
        torch.ops.kda_prefill.forward(**prefill(**changed))


# The bug: compiled, or as kda_prefill, a call of CPU tensors had torch's "Could not run ... with
# arguments from the 'CPU' backend" and a page of dispatch keys.
@both
def test_compiled_calls_of_cpu_tensors_are_refused_as_eager_ones_are(call):
    torch.compiler.reset()
    compiled = torch.compile(lambda x: call(**x)[0] + 0, fullgraph=True, backend="eager")
    with torch.inference_mode(), pytest.raises(ValueError, match="q is on cpu; kda runs on CUDA"):
        compiled(inputs())


def test_kda_prefill_of_cpu_tensors_is_refused():
    with pytest.raises(ValueError, match="q is on cpu; kda runs on CUDA"):
        torch.ops.kda_prefill.forward(*inputs(dtype=torch.float32).values(), 16)


def test_lengths_share_plans():
    from kda.torch._plans import bucket

    for count in [*range(0, 300), 1000, 8191, 8192, 8193, 8448, 10**6]:
        assert max(count, 1) <= bucket(count) <= max(count, 1) * 9 / 8 + 1
        assert bucket(bucket(count)) == bucket(count)
    assert len({bucket(count) for count in range(1, 8193)}) < 100


def test_only_what_the_library_would_refuse_is_copied():
    x = inputs(T=8, H=4, HV=4)
    packed = torch.zeros(1, 8, 3 * 4 * 16, dtype=torch.float16)
    q, k, v = (part.unflatten(-1, (4, 16)) for part in packed.chunk(3, -1))
    wide = torch.zeros(1, 8, 4, 32, dtype=torch.float16)[..., ::2]  # channels apart
    one = torch.zeros(1, 1, 4, dtype=torch.float16).expand(1, 8, 4)  # every token the same beta
    state = torch.zeros(1, 4, 16, 16, dtype=torch.bfloat16)
    cu16 = torch.tensor([0, 8], dtype=torch.int16)
    t = _tensors.Tensors(q, k, v, wide, one, None, torch.zeros(64).half(), state, cu16)
    r = _tensors.repaired(t, torch.float32)
    assert r.q is q and r.k is k and r.v is v
    assert r.g.is_contiguous() and r.beta.is_contiguous()
    assert r.dt_bias.dtype == r.initial_state.dtype == torch.float32
    assert r.cu_seqlens.dtype == torch.int64
    again = _tensors.repaired(r, torch.float32)
    assert all(a is None or a.data_ptr() == b.data_ptr() for a, b in zip(r, again))
    assert _tensors.repaired(_tensors.Tensors(**x, A_log=None, dt_bias=None, initial_state=None,
                                        cu_seqlens=None), torch.float32).g is x["g"]  # fmt: skip


def test_zero_means_zero_and_not_the_default():
    assert 0 < _call.scale_of(0) < 1e-30 and _call.scale_of(2) == 2
    assert -1e-30 < _call.lower_bound_of(0) < 0 and _call.lower_bound_of(-4) == -4
    assert math.isnan(_call.scale_of(math.nan))


# The bug: a scale that is zero in 32 bits came as the library's zero, 1 / sqrt(K).
@pytest.mark.parametrize("scale", [1e-50, -1e-50, 5e-324])
def test_what_rounds_to_zero_means_zero_too(scale):
    assert ctypes.c_float(_call.scale_of(scale)).value > 0
    assert ctypes.c_float(_call.lower_bound_of(scale)).value < 0


def test_kda_torch_is_reached_through_kda():
    assert kda.torch.chunk_kda is chunk_kda


WITHOUT_CUDA = """
import torch
for name in ("_cuda_getCurrentRawStream", "_cuda_getDevice"):
    if hasattr(torch._C, name):
        delattr(torch._C, name)
import kda.torch
new = lambda *shape: torch.zeros(shape, dtype=torch.bfloat16)
x = [new(1, 8, 2, 64), new(1, 8, 2, 64), new(1, 8, 2, 32), new(1, 8, 2, 64), new(1, 8, 2)]
problem = kda.Problem(heads=2, key_dim=64, value_dim=32, max_tokens=8)
plan = kda.Plan(problem, kda.Options(target="sm_90a"))
for call in (
    lambda: kda.torch.chunk_kda(*x),
    lambda: plan.run(**dict(zip(("q", "k", "v", "g", "beta"), x)), o=new(1, 8, 2, 32)),
    kda.torch._call._current_device,
    lambda: kda.torch._call._current_stream(0),
):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, str(error).split(chr(10))[0])
"""


# The bug: a torch built without CUDA has no names for devices and streams, and the import failed.
def test_a_torch_without_cuda_is_told_what_is_missing():
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT_CUDA],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools" / "python")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    calls = said.stdout.splitlines()
    assert calls[0] == "ValueError q is on cpu; kda runs on CUDA devices"
    assert calls[1] == "ValueError q is on cpu; kda reads CUDA memory"
    if not torch.cuda.is_available():
        assert len(calls) == 4  # of torch's own words, of which each build has others


@pytest.mark.skipif(not hasattr(torch._C, "_cuda_getDevice"), reason="a torch without CUDA")
def test_a_torch_with_cuda_keeps_its_fast_names():
    assert _call._current_device is torch._C._cuda_getDevice
    assert _call._current_stream is torch._C._cuda_getCurrentRawStream


# The bug: a level of forward-mode differentiation was not looked for, and tangents were dropped.
@both
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_tangents_are_refused_and_not_dropped(call, mode):
    x = inputs()
    with forward_ad.dual_level(), mode():
        dual = forward_ad.make_dual(x["v"], torch.ones_like(x["v"]))
        with pytest.raises(NotImplementedError, match="v carries a tangent.*inference_mode"):
            call(**{**x, "v": dual})
        with pytest.raises(ValueError, match="q is on cpu"):
            call(**x)
        with torch.inference_mode(), pytest.raises(ValueError, match="q is on cpu"):
            call(**{**x, "v": dual})
    with mode(), pytest.raises(NotImplementedError, match="g carries a tangent"):
        torch.func.jvp(lambda g: call(**{**x, "g": g})[0], (x["g"],), (x["g"],))


def test_kda_prefill_refuses_tangents():
    x = {name: torch.zeros(2, 3, 40, 64) for name in ("q", "k", "v", "g")}
    x.update(beta=torch.zeros(2, 3, 40), chunk_size=32)
    wy = torch.zeros(2, 3, 2, 32, 64)
    with forward_ad.dual_level():
        x["beta"] = forward_ad.make_dual(x["beta"], x["beta"] + 1)
        with pytest.raises(NotImplementedError, match="kda_prefill: beta carries a tangent"):
            torch.ops.kda_prefill.forward(**x)
        with pytest.raises(NotImplementedError, match="kda_prefill: beta carries a tangent"):
            prefill_operator._fill(*x.values(), wy, wy, x["v"])  # where compiled code comes
        x["beta"] = torch.zeros(2, 3, 40)
        with pytest.raises(NotImplementedError, match="kda_prefill: u carries a tangent"):
            torch.ops.kda_prefill.forward(**x, u=forward_ad.make_dual(wy, wy + 1))


# The bug: words of the paged form, and of vLLM's fork, were passed over, so that a call began from the
# wrong states, or left none where they were asked for.
@pytest.mark.parametrize(
    "call, word, remedy",
    [
        (chunk_kda, "ssm_state_indices", "paged_kda"),
        (chunk_kda, "num_accepted_tokens", "paged_kda"),
        (chunk_kda, "inplace_final_state", "paged_kda"),
        (chunk_kda, "out", "paged_kda"),
        (chunk_kda, "committed_tokens", "paged_kda"),
        (chunk_kda, "checkpoint_tokens", "paged_kda"),
        (fused_recurrent_kda, "initial_state_indices", "paged_kda"),
        (fused_recurrent_kda, "checkpoint_indices", "paged_kda"),
        (fused_recurrent_kda, "a_log", "A_log is its name"),
        (fused_recurrent_kda, "g_bias", "dt_bias is its name"),
        (fused_recurrent_kda, "compute_gate", "use_gate_in_kernel is its name"),
        (fused_recurrent_kda, "sigmoid_beta", "use_beta_sigmoid_in_kernel is its name"),
        (fused_recurrent_kda_fwd, "checkpoint_tokens", "paged_kda"),
        (fused_recurrent_kda_fwd, "sigmoid_beta", "use_beta_sigmoid_in_kernel is its name"),
    ],
)
def test_words_of_other_forms_are_refused(call, word, remedy):
    with pytest.raises(TypeError, match=f"{call.__name__} does nothing with {word}; .*{remedy}"):
        call(**inputs(), **{word: torch.zeros(1)})
    for nothing in (None, False, 0):  # not given: the call goes as far as it can without a GPU
        with pytest.raises(ValueError, match="kda runs on CUDA devices"):
            call(**inputs(), initial_state=torch.zeros(1, 2, 16, 16), **{word: nothing})


def test_accepted_tokens_want_slots():
    with pytest.raises(ValueError, match="num_accepted_tokens is given without ssm_state_indices"):
        fused_recurrent_kda_fwd(
            **inputs(), initial_state=torch.zeros(1, 2, 16, 16), num_accepted_tokens=torch.ones(1)
        )


class Wrapper(torch.Tensor):
    """A tensor whose memory is another's, as a DTensor's is."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} is not wanted")


# The bug: A_log as a DTensor has no address, which the library takes for not given: exp(A_log) was 1.
def test_tensors_without_memory_are_refused():
    with pytest.raises(ValueError, match="A_log is a Wrapper without memory of its own; .*to_local"):
        _tensors.check_memory("A_log", Wrapper(torch.zeros(4)))
    _tensors.check_memory("A_log", torch.zeros(4))
    _tensors.check_memory("A_log", torch.nn.Parameter(torch.zeros(4)))
    _tensors.check_memory("A_log", torch.zeros(0))


# The bug: of a tensor that is negated lazily the memory was read, which holds the other sign.
def test_lazily_negated_tensors_are_made():
    x = inputs()
    x = {name: tensor.fill_(index + 1.0) for index, (name, tensor) in enumerate(x.items())}
    negated = {name: torch._neg_view(tensor) for name, tensor in x.items()}
    A_log = torch._neg_view(torch.ones(2))
    t = _tensors.Tensors(**negated, A_log=A_log, dt_bias=None, initial_state=None, cu_seqlens=None)
    made = _tensors.repaired(t, torch.float32)
    for name, tensor in made._asdict().items():
        if tensor is None:
            continue
        assert not tensor.is_neg()
        at = (ctypes.c_float * 1).from_address(tensor.data_ptr()) if name == "A_log" else None
        assert at is None or at[0] == -1.0
        assert torch.equal(tensor, t._asdict()[name].resolve_neg())


# The bug: python -O drops assertions, and with them what kept wrong shapes from the kernels.
def test_no_check_is_an_assert_statement():
    for path in sorted(pathlib.Path(kda.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assert):  # but what tells mypy of an Optional
                assert ast.unparse(node.test).endswith("is not None"), f"{path}:{node.lineno}"


def test_wrong_shapes_are_refused_by_python_O_too():
    script = (
        "import torch, kda.torch\n"
        "x = torch.zeros(1, 8, 2, 16, dtype=torch.bfloat16)\n"
        "try: kda.torch.chunk_kda(x, x, x, x, x[..., 0, :1])\n"
        "except AssertionError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(kda.__file__).parents[1])}
    command = [sys.executable, "-O", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.stdout == "beta is [1, 8, 1]; it must be [1, 8, 2]\n", ran.stderr
