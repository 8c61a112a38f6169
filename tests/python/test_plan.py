"""Plans without a GPU: made for a named device, run as far as the checks."""

import copy
import dataclasses
import gc
import math
import os
import pickle
import re
import subprocess
import sys
import threading

import pytest
from support import ROOT, Array, Exporter

import kda
from kda import _abi

REFUSES_TO_RUN = "does not run"  # the last check of a plan made for a target: all others passed


def test_a_plan_compiles_for_a_device_that_is_not_here():
    problem = kda.Problem(heads=4, max_tokens=1024, final_state=True)
    plan = kda.Plan(problem, kda.Options(target="sm_90a"))
    assert "sm_90a" in plan.describe()
    assert plan.workspace_bytes > 0
    assert plan.problem == dataclasses.replace(problem, value_heads=4, scale=plan.problem.scale)
    assert plan.problem.scale == pytest.approx(128**-0.5)


def test_options_force_strategy_and_tuning():
    problem = kda.Problem(heads=2, max_tokens=64)
    plan = kda.Plan(problem, kda.Options(target="sm_90a", strategy="recurrent"))
    assert "recurrent" in plan.describe()
    with pytest.raises(kda.InvalidArgument, match="nonesuch"):
        kda.Plan(problem, kda.Options(target="sm_90a", strategy="nonesuch"))


# The bug: where KDA_NVRTC_PATH leads nowhere, and no other NVRTC is looked for, the message said to
# install one.
def test_an_nvrtc_that_is_named_and_missing_is_not_to_be_installed(tmp_path):
    program = """import kda
try:
    kda.Plan(kda.Problem(heads=3, max_tokens=77), kda.Options(target="sm_90a"))
except kda.CompileError as error:
    print(error)"""
    places = {"KDA_NVRTC_PATH": str(tmp_path / "nothing"), "KDA_CACHE_DIR": str(tmp_path / "cache")}
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **places, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "KDA_NVRTC_PATH" in said
    assert "pip install" not in said


# The bug: ctypes keeps the low bits of what does not fit, so a plan was made for other sizes; and a
# C string ends at its first null.
@pytest.mark.parametrize(
    "problem, options, kind, words",
    [
        ({"heads": 2**32 + 16}, {}, ValueError, r"heads = 4294967312; it must be in -2147483648\.\."),
        ({"max_tokens": 2**64 + 64}, {}, ValueError, "max_tokens = 18446744073709551680"),
        ({"heads": 1.5}, {}, TypeError, "heads = 1.5 is not an integer"),
        ({}, {"device": 2**32 - 1}, ValueError, "device = 4294967295"),
        ({}, {"target": "h200\0x"}, ValueError, "target = .* null character"),
        ({}, {"strategy": 7}, TypeError, "strategy = 7 is not a str or a path"),
    ],
)  # fmt: skip
def test_what_c_would_cut_short_is_refused(problem, options, kind, words):
    of = kda.Problem(**{"heads": 2, "max_tokens": 64, **problem})
    with pytest.raises(kind, match=words):
        kda.Plan(of, kda.Options(**{"target": "sm_90a", **options}))


# The bug: a directory whose name is no UTF-8, or a pathlib.Path, was an error of another kind.
def test_directories_may_have_any_name(tmp_path):
    problem = kda.Problem(heads=1, key_dim=16, value_dim=16, max_tokens=8)
    for place in (tmp_path / "path", os.fsdecode(os.fsencode(tmp_path) + b"/\xff")):
        plan = kda.Plan(problem, kda.Options(target="sm_90a", strategy="recurrent", cache_dir=place))
        assert plan.problem.heads == 1
        assert os.path.isdir(place)


def test_enumerators_may_be_named():
    assert kda.Problem(qkv_type="f16").qkv_type is kda.DType.f16
    assert kda.Problem(gate="softplus").gate is kda.Gate.softplus
    with pytest.raises(ValueError, match="known: f32, bf16, f16"):
        kda.Problem(qkv_type="f64")
    with pytest.raises(ValueError, match="known: wisdom_only, estimate, measure"):
        kda.Options(effort="hard")


@pytest.mark.parametrize(
    "problem, kind, word",
    [
        (kda.Problem(heads=3, value_heads=4, max_tokens=1), kda.InvalidProblem, "value_heads = 4"),
        (kda.Problem(heads=1, key_dim=257, max_tokens=1), kda.InvalidProblem, "key_dim = 257"),
        (kda.Problem(heads=1, max_tokens=-1), kda.InvalidProblem, "max_tokens = -1"),
        (kda.Problem(heads=1, max_tokens=1, lower_bound=1), kda.InvalidProblem, "lower_bound"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field_and_its_value(problem, kind, word):
    with pytest.raises(kind, match=word) as caught:
        kda.Plan(problem, kda.Options(target="sm_90a"))
    assert isinstance(caught.value, (kda.Error, ValueError))
    with pytest.raises(kda.InvalidProblem, match=word):
        kda.supports(problem, kda.Options(target="sm_90a"))


# The bug: make_all raised for one problem that fits no field, and a scale that is zero in 32 bits was
# the default.
@pytest.mark.parametrize(
    "fields, words",
    [
        ({"heads": 2**32 + 16}, r"heads = 4294967312; it must be in -2147483648\.\.2147483647"),
        ({"max_tokens": 2**64 + 64}, r"max_tokens = 18446744073709551680; .*9223372036854775807"),
        ({"max_sequences": -(2**31) - 1}, "max_sequences = -2147483649; it must be in"),
        ({"checkpoint_tokens": 2**32}, "checkpoint_tokens = 4294967296; it must be in"),
        ({"wy_chunk": 2**32}, "wy_chunk = 4294967296; it must be in"),
        ({"scale": 1e39}, "scale = 1e[+]39; its 32 bits reach from -3.4e38 to 3.4e38"),
        ({"scale": 10**400}, "scale = 10000.*; it is past every float"),
        ({"scale": 1e-50}, "scale = 1e-50; its 32 bits make that 0, so pass 0 or 1.2e-38 or more"),
        ({"lower_bound": -1e-50}, "lower_bound = -1e-50; its 32 bits make that 0"),
    ],
)
def test_a_problem_fits_its_fields(fields, words):
    here = kda.Options(target="sm_90a", strategy="recurrent")
    good = kda.Problem(heads=1, max_tokens=1)
    bad = dataclasses.replace(good, **fields)
    for call in (kda.Plan, kda.supports):
        with pytest.raises(kda.InvalidProblem, match=words):
            call(bad, here)
    plans = kda.Plan.make_all([bad, good, bad], here)
    assert [type(x) for x in plans] == [kda.InvalidProblem, kda.Plan, kda.InvalidProblem]


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"device": 2**32 - 1}, r"device = 4294967295; it must be in -2147483648\.\.2147483647"),
        ({"stream": -1}, r"stream = -1; it must be in 0\.\.18446744073709551615"),
        ({"target": "h200\0x"}, r"target = 'h200\\x00x' has a null character"),
        ({"strategy": "recurrent\0"}, "strategy = .* has a null character"),
        ({"tuning": "\0"}, "tuning = .* has a null character"),
        ({"cache_dir": b"/tmp/\0x"}, "cache_dir = .* has a null character"),
        ({"target": "\udcff"}, "is not known; known are"),
    ],
)
def test_options_fit_their_fields(fields, words):
    problem = kda.Problem(heads=1, max_tokens=1)
    options = kda.Options(**{"target": "sm_90a", **fields})
    for call in (kda.Plan, kda.supports):
        with pytest.raises(kda.InvalidArgument, match=words):
            call(problem, options)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"heads": 2.0}, "heads = 2.0 is not an integer"),
        ({"max_tokens": "64"}, "max_tokens = '64' is not an integer"),
        ({"max_sequences": None}, "max_sequences = None is not an integer"),
        ({"scale": "1"}, "scale = '1' is not a number"),
        ({"lower_bound": None}, "lower_bound = None is not a number"),
        ({"varlen": "no"}, "varlen = 'no' is not a bool"),
        ({"final_state": 0.5}, "final_state = 0.5 is not a bool"),
        ({"device": 0.0}, "device = 0.0 is not an integer"),
        ({"time_limit_seconds": "5"}, "time_limit_seconds = '5' is not a number"),
        ({"target": 90}, "target = 90 is not a str or a path"),
        ({"cache_dir": 5}, "cache_dir = 5 is not a str or a path"),
    ],
)
def test_a_value_of_another_type_is_named(given, words):
    fields = {"heads": 1, "max_tokens": 1}
    options = {"target": "sm_90a"}
    for name, value in given.items():
        (options if hasattr(kda.Options, name) else fields)[name] = value
    with pytest.raises(TypeError, match=words):
        kda.Plan(kda.Problem(**fields), kda.Options(**options))


def test_numbers_may_be_of_other_kinds():
    class Number:
        def __index__(self):
            return 3

    problem = kda.Problem(heads=Number(), max_tokens=True, varlen=1, scale=2, qkv_type=0)
    plan = kda.Plan(problem, kda.Options(target="sm_90a", strategy=None, stream=None))
    seen = plan.problem
    assert (seen.heads, seen.max_tokens, seen.varlen, seen.scale) == (3, 1, True, 2.0)


def test_supports_compiles_nothing():
    problem = kda.Problem(heads=4, max_tokens=1024)
    assert kda.supports(problem, kda.Options(target="sm_89"))
    forced = kda.Options(target="sm_89", strategy="chunk_wgmma")
    assert not kda.supports(problem, forced)  # Hopper's alone
    with pytest.raises(NotImplementedError):
        kda.Plan(problem, forced)


def test_several_plans_at_once():
    good = kda.Problem(heads=1, key_dim=64, value_dim=64, max_tokens=64)
    bad = dataclasses.replace(good, key_dim=300)
    worse = dataclasses.replace(good, heads=3, value_heads=4)
    plans = kda.Plan.make_all([good, bad, worse, good], kda.Options(target="sm_90a"))
    assert isinstance(plans[0], kda.Plan) and isinstance(plans[3], kda.Plan)
    assert isinstance(plans[1], kda.InvalidProblem) and "key_dim = 300" in str(plans[1])
    assert isinstance(plans[2], kda.InvalidProblem) and "value_heads = 4" in str(plans[2])
    assert kda.Plan.make_all([]) == []


def test_the_log_goes_where_it_is_told():
    said = []
    kda.set_log(kda.LogLevel.debug, lambda level, text: said.append((level, text)))
    try:
        kda.Plan(kda.Problem(heads=1, key_dim=52, max_tokens=5), kda.Options(target="sm_90a"))
    finally:
        kda.set_log(kda.LogLevel.off)
    assert said and all(isinstance(level, kda.LogLevel) and text for level, text in said)


def test_every_tensor_reaches_the_library(small_plan, arrays):
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        small_plan.run(**arrays)


@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta", "o", "initial_state", "final_state"])
def test_the_library_sees_the_pointer_of_each(small_plan, arrays, name):
    # An odd address is refused by the library itself, which names the field.
    arrays[name].__cuda_array_interface__["data"] = ((5 << 32) + 1, False)
    with pytest.raises(kda.InvalidArgument, match=rf"{name} = 0x500000001 is not aligned"):
        small_plan.run(**arrays)


@pytest.mark.parametrize("name", ["A_log", "dt_bias"])
def test_the_gates_parameters_may_be_absent(small_plan, arrays, name):
    arrays[name] = None
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        small_plan.run(**arrays)


@pytest.mark.parametrize(
    "name, replacement, words",
    [
        ("k", Array((24, 2, 32)), r"k has the shape \[24, 2, 32\]; this run wants \[24, 2, 64\]"),
        ("v", Array((24, 4, 32), "<f4"), "v is f32; the plan's problem says bf16"),
        ("q", Array((24, 128)), r"q has the shape \[24, 128\]"),
        ("beta", Array((23, 4)), r"beta has the shape \[23, 4\]"),
        ("A_log", Array((4,)), "A_log is bf16; it is always f32"),
        ("g", Array((24, 4, 64), strides=(512, 128, 4)), "last dimension must be contiguous"),
        ("g", Array((24, 4, 64), strides=(511, 128, 2)), "not whole elements"),
        ("g", Array((24, 4, 64), "<u2"), None),
        ("g", Array((24, 4, 64), "<i2"), "g has the type <i2"),
        ("o", Array((24, 4, 32), strides=(64, 64, 2)), "o_strides"),
        ("initial_state", Array((2, 4, 32, 64), "<f4"), r"this run wants \[3, 4, 32, 64\]"),
        ("initial_state", None, "initial_state is null"),
        ("workspace", None, None),
        ("q", "text", "q is a str"),
    ],
)
def test_what_does_not_fit_is_refused(small_plan, arrays, name, replacement, words):
    arrays[name] = replacement
    if words is None:  # another name of bf16, and a plan without a workspace
        words = REFUSES_TO_RUN
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=words):
        small_plan.run(**arrays)


# The bug: strides of a tensor that is one row for all tokens and heads are all 0, the library's word
# for contiguous, so it was read, and o written, past its end.
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta", "o"])
def test_a_row_for_all_tokens_and_heads_is_refused(small_plan, arrays, name, apart):
    if apart:
        del arrays["sequences"]
        for each in ("q", "k", "v", "g", "beta", "o"):
            shape = arrays[each].__cuda_array_interface__["shape"]
            arrays[each].__cuda_array_interface__["shape"] = (3, 8, *shape[1:])
    interface = arrays[name].__cuda_array_interface__
    zeros = (0,) * (3 if apart else 2)
    interface["strides"] = zeros if name == "beta" else (*zeros, 2)
    with pytest.raises(ValueError, match=f"{name} has strides .* pass a contiguous copy"):
        small_plan.run(**arrays)
    interface["strides"] = (*zeros[1:], 64) if name == "beta" else (*zeros[1:], 64, 2)
    with pytest.raises(kda.InvalidArgument, match=f"{name}_strides"):  # the library's own
        small_plan.run(**arrays)


def test_sequences_may_lie_apart(small_plan, arrays):
    del arrays["sequences"]
    for name in ("q", "k", "v", "g", "beta", "o"):
        shape = arrays[name].__cuda_array_interface__["shape"]
        arrays[name].__cuda_array_interface__["shape"] = (3, 8, *shape[1:])
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        small_plan.run(**arrays)


# The bug: sequences was believed where q's own shape says how many there are, and the kernels
# walked with strides that are not theirs.
@pytest.mark.parametrize("sequences", [1, 4, 0])
def test_sequences_that_lie_apart_are_as_many_as_q_says(small_plan, arrays, sequences):
    for name in ("q", "k", "v", "g", "beta", "o"):
        shape = arrays[name].__cuda_array_interface__["shape"]
        arrays[name].__cuda_array_interface__["shape"] = (3, 8, *shape[1:])
    for fitting in (3, None):
        with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
            small_plan.run(**{**arrays, "sequences": fitting})
    state = Array((sequences, 4, 32, 64), "<f4")
    arrays.update(sequences=sequences, initial_state=state, final_state=state)
    words = rf"sequences = {sequences}, and q has the shape \[3, 8, 2, 64\].* leave sequences out"
    with pytest.raises(ValueError, match=words):
        small_plan.run(**arrays)


# The bug: A_log and dt_bias of other heads were read past their ends.
@pytest.mark.parametrize(
    "name, shape, words",
    [
        ("A_log", (2,), r"A_log has 2 elements; it needs 4 \(HV=4, K=64\)"),
        ("A_log", (4, 64), "A_log has 256 elements; it needs 4 "),
        ("dt_bias", (2, 64), r"dt_bias has 128 elements; it needs 256 \(HV=4, K=64\)"),
        ("dt_bias", (4,), "dt_bias has 4 elements; it needs 256 "),
    ],
)
def test_the_gates_parameters_are_those_of_the_problem(small_plan, arrays, name, shape, words):
    with pytest.raises(ValueError, match=words):
        small_plan.run(**{**arrays, name: Array(shape, "<f4")})
    flat = {"A_log": Array((1, 4), "<f4"), "dt_bias": Array((256,), "<f4")}
    for others in (flat, {name: arrays[name].pointer}):  # of an address the caller's word is taken
        with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
            small_plan.run(**{**arrays, **others})


def test_packed_sequences(arrays):
    problem = kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                          max_sequences=4, varlen=True, cu_seqlens_type="i32",
                          initial_state=True, final_state=True)  # fmt: skip
    plan = kda.Plan(problem, kda.Options(target="sm_90a", strategy="recurrent"))
    del arrays["sequences"]
    with pytest.raises(kda.InvalidArgument, match="cu_seqlens is null"):
        plan.run(**arrays, sequences=3)
    with pytest.raises(ValueError, match="cu_seqlens is i64; the plan's problem says i32"):
        plan.run(**arrays, cu_seqlens=Array((4,), "<i8"))
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        plan.run(**arrays, cu_seqlens=Array((4,), "<i4"))


# The bug: sequences, streams and addresses were cut to the bits of their fields, and sequences = 0
# of tokens in one row was 1.
@pytest.mark.parametrize(
    "name, value, kind, words",
    [
        ("sequences", 2**32 + 3, ValueError, "sequences = 4294967299; it must be in -2147483648"),
        ("sequences", 0, ValueError, r"sequences = 0; the plan takes 1\.\.max_sequences = 4"),
        ("sequences", 3.0, TypeError, "sequences = 3.0 is not an integer"),
        ("stream", -1, ValueError, r"stream = -1; it must be in 0\.\.18446744073709551615"),
        ("stream", 2**64 + 7, ValueError, "stream = 18446744073709551623; it must be in 0"),
        ("workspace", 2**64 + 2**20, ValueError, "workspace = 18446744073710600192; it must be"),
        ("beta", 2**64 + 2**20, ValueError, "beta = 18446744073710600192; it must be in 0"),
        ("o", -256, ValueError, "o = -256; it must be in 0"),
    ],
)
def test_the_numbers_of_a_run_fit_their_fields(small_plan, arrays, name, value, kind, words):
    if value == 0:  # of no sequence's states
        arrays.update(initial_state=1 << 40, final_state=1 << 40)
    with pytest.raises(kind, match=words):
        small_plan.run(**{**arrays, name: value})


# The bug: sequences beside cu_seqlens was ignored, and a cu_seqlens of two dimensions taken for its
# first row.
def test_packed_sequences_are_as_many_as_cu_seqlens_says(arrays):
    problem = kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                          max_sequences=4, varlen=True, initial_state=True,
                          final_state=True)  # fmt: skip
    plan = kda.Plan(problem, kda.Options(target="sm_90a", strategy="recurrent"))
    for sequences in (3, None):
        with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
            plan.run(**{**arrays, "sequences": sequences}, cu_seqlens=Array((4,), "<i8"))
    words = r"sequences = 2, and cu_seqlens has the shape \[4\], of 3 sequences; leave sequences out"
    with pytest.raises(ValueError, match=words):
        plan.run(**{**arrays, "sequences": 2}, cu_seqlens=Array((4,), "<i8"))
    for shape in ((4, 2), ()):
        words = rf"cu_seqlens has the shape {re.escape(str(list(shape)))}; it is \[N \+ 1\]"
        with pytest.raises(ValueError, match=words):
            plan.run(**arrays, cu_seqlens=Array(shape, "<i8"))


def test_a_stream_may_be_an_int_or_an_object(small_plan, arrays):
    class Torch:
        cuda_stream = 7

    class CuPy:
        ptr = 7

    class Protocol:
        def __cuda_stream__(self):
            return 0, 7

    for stream in (7, Torch(), CuPy(), Protocol()):
        with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
            small_plan.run(**arrays, stream=stream)
    with pytest.raises(TypeError, match="stream is a str"):
        small_plan.run(**arrays, stream="7")


class OnGpu:
    """What kda asks of a torch tensor."""

    is_cuda, dtype = True, "torch.bfloat16"

    def __init__(self, shape, index):
        self.shape, self.get_device = shape, lambda: index

    def data_ptr(self):
        return 1 << 40

    def stride(self):
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))


# The bug: kernels of q's device were given the addresses of another one's memory.
def test_tensors_are_on_one_device(small_plan, arrays):
    together = {"q": OnGpu((24, 2, 64), 1), "k": OnGpu((24, 2, 64), 1), "A_log": 1 << 41}
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        small_plan.run(**{**arrays, **together})
    words = "beta is on the CUDA device 0 and q on 1; they must be together"
    for beta in (OnGpu((24, 4), 0), Exporter((24, 4), None, code=4, bits=16)):
        with pytest.raises(ValueError, match=words):
            small_plan.run(**{**arrays, **together, "beta": beta})
    managed = Exporter((24, 4), None, code=4, bits=16, device=13)
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        small_plan.run(**{**arrays, **together, "beta": managed})


# The bug: of a workspace that is not contiguous its elements were counted, so kernels wrote between
# them, or past its end where one element stands for many.
@pytest.mark.parametrize("strides", [(0,), (2,)])
def test_a_workspace_is_contiguous(small_plan, arrays, strides):
    for fitting in (None, (1,)):
        arrays["workspace"] = Array((1 << 16,), "|u1", strides=fitting)
        with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
            small_plan.run(**arrays)
    arrays["workspace"] = Array((1 << 16,), "|u1", strides=strides)
    with pytest.raises(ValueError, match="workspace has strides .* it must be contiguous"):
        small_plan.run(**arrays)


@pytest.fixture
def pooled(arrays):
    problem = kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                          max_sequences=4, initial_state=True, final_state=True, state_pool=True,
                          slot_index_type="i64", checkpoint_tokens=64)  # fmt: skip
    # Slots of 4 * 32 * 64 elements that lie 10000 apart.
    pool = Array((9, 4, 32, 64), "<f4", strides=(40000, 8192, 256, 4))
    arrays.update(initial_state=pool, final_state=pool)
    return kda.Plan(problem, kda.Options(target="sm_90a")), arrays


def test_states_in_slots(pooled):
    plan, arrays = pooled
    table = Array((3, 2), "<i8", strides=(40, 8))
    slots = kda.StatePool(Array((3,), "<i8"), initial_indices=Array((3,), "<i8"), checkpoints=table)
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        plan.run(**arrays, pool=slots)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"indices": Array((3,), "<i4")}, "indices is i32; the plan's problem says i64"),
        ({"checkpoints": None}, "pool.checkpoints.data is null"),
        ({"num_accepted_tokens": Array((3,), "<i8")}, "Problem::draft_states = false"),
        ({"checkpoints": Array((3, 2), "<i8", strides=(8, 16))}, "rows must be contiguous"),
        ({"initial_indices": Array((3,), "<i8", strides=(16,))}, "initial_indices has strides"),
    ],
)
def test_what_does_not_fit_of_slots_is_refused(pooled, fields, words):
    plan, arrays = pooled
    slots = {"indices": Array((3,), "<i8"), "checkpoints": Array((3, 2), "<i8"), **fields}
    with pytest.raises(ValueError, match=words):
        plan.run(**arrays, pool=kda.StatePool(**slots))


# The bug: a table with fewer rows than sequences was taken, and kernels read past its end.
@pytest.mark.parametrize("field", ["indices", "initial_indices", "checkpoints"])
def test_each_sequence_has_its_slot(pooled, field):
    plan, arrays = pooled
    fields = {"indices": (3,), "initial_indices": (3,), "checkpoints": (3, 2)}
    fields[field] = (2, *fields[field][1:])
    slots = kda.StatePool(**{name: Array(shape, "<i8") for name, shape in fields.items()})
    with pytest.raises(ValueError, match=f"{field} has shape .* each of 3 sequences"):
        plan.run(**arrays, pool=slots)


# The bug: slots and their stride were final_state's, whatever initial_state said, which was read
# past its end or elsewhere.
@pytest.mark.parametrize(
    "initial", [Array((4, 4, 32, 64), "<f4", strides=(40000, 8192, 256, 4)),
                Array((9, 4, 32, 64), "<f4")],
)  # fmt: skip
def test_both_states_are_of_one_pool(pooled, initial):
    plan, arrays = pooled
    slots = kda.StatePool(Array((3,), "<i8"), checkpoints=Array((3, 2), "<i8"))
    with pytest.raises(ValueError, match="is not laid out as initial_state"):
        plan.run(**{**arrays, "initial_state": initial}, pool=slots)


def test_one_slot_has_no_stride(pooled):
    plan, arrays = pooled
    pool = kda.StatePool(Array((3,), "<i8"), checkpoints=Array((3, 2), "<i8"))
    arrays["initial_state"] = Array((1, 4, 32, 64), "<f4", strides=(4, 8192, 256, 4))
    arrays["final_state"] = Array((1, 4, 32, 64), "<f4")
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        plan.run(**arrays, pool=pool)


# The bug: the distance 0 of a pool that is one slot many times was the library's word for contiguous
# slots, so it was read and written past its end.
@pytest.mark.parametrize("stride", [0, 32764, -40000])
@pytest.mark.parametrize("name", ["initial_state", "final_state"])
def test_slots_of_a_pool_lie_apart(pooled, name, stride):
    plan, arrays = pooled
    pool = kda.StatePool(Array((3,), "<i8"), checkpoints=Array((3, 2), "<i8"))
    arrays[name] = Array((9, 4, 32, 64), "<f4", strides=(stride, 8192, 256, 4))
    with pytest.raises(ValueError, match=f"{name} has strides .* the first must be 8192 or more"):
        plan.run(**arrays, pool=pool)


# The bug: indices of other dimensions were read as if they were a row or a table.
@pytest.mark.parametrize(
    "field, shape",
    [
        ("indices", (3, 1, 1)),
        ("checkpoints", (3, 2, 1)),
        ("initial_indices", (3, 2)),
        ("num_accepted_tokens", (3, 1)),
    ],
)
def test_indices_are_rows_or_tables(pooled, field, shape):
    plan, arrays = pooled
    slots = {"indices": Array((3,), "<i8"), "checkpoints": Array((3, 2), "<i8")}
    words = rf"{field} has shape {re.escape(str(list(shape)))}; it is \[N\]"
    with pytest.raises(ValueError, match=words):
        plan.run(**arrays, pool=kda.StatePool(**{**slots, field: Array(shape, "<i8")}))
    more = {"indices": Array((5, 2), "<i8"), "checkpoints": Array((4,), "<i8")}
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        plan.run(**arrays, pool=kda.StatePool(**more, initial_indices=Array((7,), "<i8")))


# The bug: the distance 0 of one index row for all sequences was the library's word for contiguous
# rows, which were read past the end.
@pytest.mark.parametrize("field, strides", [("indices", (0,)), ("checkpoints", (0, 8))])
def test_index_rows_lie_apart(pooled, field, strides):
    plan, arrays = pooled
    slots = {"indices": Array((3,), "<i8"), "checkpoints": Array((3, 2), "<i8")}
    slots[field] = Array((3, 2)[: len(strides)], "<i8", strides=strides)
    with pytest.raises(ValueError, match=f"{field} has strides .* a contiguous copy"):
        plan.run(**arrays, pool=kda.StatePool(**slots))


def test_slots_must_be_contiguous_and_asked_for(pooled, small_plan):
    plan, arrays = pooled
    slots = kda.StatePool(Array((3,), "<i8"), checkpoints=Array((3, 2), "<i8"))
    apart = Array((9, 4, 32, 64), "<f4", strides=(70000, 16384, 512, 8))
    with pytest.raises(ValueError, match="initial_state has strides"):
        plan.run(**{**arrays, "initial_state": apart}, pool=slots)
    with pytest.raises(ValueError, match="Problem::state_pool = false|indices is i64"):
        small_plan.run(**arrays, pool=slots)


def test_committed_tokens(arrays):
    problem = kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                          max_sequences=4, final_state=True, slot_index_type="i64",
                          committed_tokens=True)  # fmt: skip
    plan = kda.Plan(problem, kda.Options(target="sm_90a"))
    arrays.update(initial_state=None, final_state=Array((3, 4, 32, 64), "<f4"))
    for counts in (None, Array((3,), "<i8")):
        with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
            plan.run(**arrays, committed_tokens=counts)
    with pytest.raises(ValueError, match="committed_tokens is i32; the plan's problem says i64"):
        plan.run(**arrays, committed_tokens=Array((3,), "<i4"))
    with pytest.raises(ValueError, match=r"committed_tokens has the shape \[4\]; .* wants \[3\]"):
        plan.run(**arrays, committed_tokens=Array((4,), "<i8"))
    with pytest.raises(ValueError, match="committed_tokens has strides"):
        plan.run(**arrays, committed_tokens=Array((3,), "<i8", strides=(16,)))
    bare = kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                       max_sequences=4, final_state=True)  # fmt: skip
    plan = kda.Plan(bare, kda.Options(target="sm_90a"))
    with pytest.raises(kda.InvalidArgument, match="Problem::committed_tokens = false"):
        plan.run(**arrays, committed_tokens=Array((3,), "<i4"))


def test_w_and_u(arrays):
    problem = kda.Problem(heads=2, key_dim=64, value_dim=32, max_tokens=64, max_sequences=3,
                          qkv_type="f32", gate="logsigmoid", wy_chunk=16)  # fmt: skip
    plan = kda.Plan(problem, kda.Options(target="sm_90a"))
    run = {"q": (64,), "k": (64,), "v": (32,), "o": (32,)}
    run = {name: Array((24, 2, *channels), "<f4") for name, channels in run.items()}
    run.update(g=Array((24, 2, 64)), beta=Array((24, 2)), workspace=1 << 20, sequences=3)
    w, u = Array((3, 2, 1, 16, 64), "<f4"), Array((3, 2, 1, 16, 32), "<f4")
    with pytest.raises(kda.Unsupported, match=REFUSES_TO_RUN):
        plan.run(**run, w=w, u=u)
    with pytest.raises(ValueError, match=r"u has the shape .* wants \[3, 2, 1, 16, 32\]"):
        plan.run(**run, w=w, u=w)
    with pytest.raises(kda.InvalidArgument, match="w = 0x500000001 is not aligned"):
        plan.run(**run, w=(5 << 32) + 1)


def test_threads_share_a_plan(small_plan, arrays):
    said = []

    def run():
        for _ in range(50):
            try:
                small_plan.run(**arrays)
            except kda.Unsupported as error:
                said.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 200 and len(set(said)) == 1


def test_a_plan_goes_with_its_object():
    plan = kda.Plan(kda.Problem(heads=1, max_tokens=1), kda.Options(target="sm_90a"))
    assert plan.handle
    plan.__del__()
    plan.__del__()  # twice is once


# The bug: a copy owned the same handle, which went twice, and a pickle held an address.
def test_a_copy_of_a_plan_is_the_plan(monkeypatch):
    plan = kda.Plan(kda.Problem(heads=1, max_tokens=1), kda.Options(target="sm_90a"))
    destroyed = []  # and leaked here
    monkeypatch.setattr(_abi.library(), "kda_plan_destroy", destroyed.append)
    copies = [copy.copy(plan), copy.deepcopy(plan), copy.deepcopy({"plan": plan})["plan"]]
    assert all(x is plan for x in copies)
    handle = plan.handle
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled.* pickle plan.problem and make"):
            pickle.dumps(plan, protocol)
    assert pickle.loads(pickle.dumps(plan.problem)) == plan.problem
    del plan, copies
    gc.collect()  # a traceback may have held it
    assert destroyed == [handle]


def test_a_missing_library_is_named(tmp_path):
    said = subprocess.run(
        [sys.executable, "-c", "import kda; kda.library_version()"],
        env={**os.environ, "KDA_LIBRARY": str(tmp_path / "libkda.so"),
             "PYTHONPATH": str(ROOT / "tools" / "python")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode != 0
    assert "ImportError: libkda.so did not open" in said.stderr
    assert str(tmp_path / "libkda.so") in said.stderr


def test_a_library_that_is_too_old_is_named():
    said = subprocess.run(
        [sys.executable, "-c", "import kda; kda.library_version()"],
        env={**os.environ, "KDA_LIBRARY": "libc.so.6",
             "PYTHONPATH": str(ROOT / "tools" / "python")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "ImportError: libc.so.6 has no kda_" in said.stderr
    assert "older than this package" in said.stderr


def test_importing_kda_imports_neither_torch_nor_the_library():
    code = "import sys, kda; assert 'torch' not in sys.modules and kda.Problem(heads=1)"
    subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "KDA_LIBRARY": "/nonesuch",
            "PYTHONPATH": str(ROOT / "tools" / "python"),
        },
        check=True,
    )
