"""chunk_kda and fused_recurrent_kda against FLA's naive recurrence, at FLA's tolerances."""

import itertools
import random

import pytest

torch = pytest.importorskip("torch")

from gpu.cases import Case, call, expected, inputs, tolerance  # noqa: E402
from naive import error_ratio  # noqa: E402

# tests/ops/test_kda.py of FLA, its forward cases: (lengths, H, groups, D, dtype, changes).
FLAS = [
    *(
        Case((T,) * B, H=H, groups=HV // H, K=D, V=D, dtype="f32", **more)
        for B, T, H, HV, D, more in [
            (1, 64, 1, 1, 64, {}),
            (2, 512, 3, 3, 60, {}),
            (4, 1024, 4, 4, 128, {"scale": 0.1}),
            (1, 64, 1, 2, 64, {}),
            (2, 512, 2, 4, 60, {}),
            (3, 1000, 4, 4, 100, {"l2norm": True, "recurrent": True}),
            (2, 1024, 2, 8, 128, {"l2norm": True, "recurrent": True}),
            (2, 256, 4, 4, 64, {"beta": "logit", "recurrent": True}),
            (1, 512, 3, 3, 60, {"beta": "doubled", "recurrent": True}),
            (3, 1000, 4, 4, 100, {"v_first": True, "recurrent": True}),
            (2, 256, 2, 2, 64, {"gate": "softplus+bias", "recurrent": True}),
            (1, 64, 1, 1, 128, {"gate": "bounded", "A_log": False, "recurrent": True}),
        ]
    ),
    *(
        Case((T,) * B, H=H, groups=HV // H, K=D, V=D, dtype="f16", initial_state=True, **more)
        for B, T, H, HV, D, more in [
            (1, 63, 1, 1, 64, {"gate": "safe"}),
            (2, 500, 3, 3, 60, {"gate": "safe"}),
            (2, 1000, 3, 3, 64, {}),
            (3, 1024, 4, 4, 100, {}),
            (4, 1024, 4, 4, 128, {"gate": "safe", "l2norm": True}),
            (2, 1500, 4, 4, 128, {"gate": "softplus+bias"}),
            (4, 2048, 8, 8, 64, {"gate": "bounded+bias"}),
            (2, 1024, 2, 8, 64, {"gate": "softplus+bias"}),
            (2, 1024, 4, 8, 128, {"gate": "softplus+bias", "l2norm": True}),
            (3, 1024, 4, 4, 128, {"v_first": True}),
            (2, 96, 2, 2, 64, {"beta": "doubled"}),
        ]
    ),
    *(
        Case((T,) * B, H=H, groups=HV // H, K=D, V=D, dtype="bf16", initial_state=True, **more)
        for B, T, H, HV, D, more in [
            (2, 1024, 2, 4, 64, {"gate": "bounded+bias", "l2norm": True}),
            (2, 160, 2, 4, 64, {"gate": "bounded+bias"}),
            (2, 1024, 2, 8, 128, {"gate": "softplus+bias", "l2norm": True}),
            (1, 2048, 16, 16, 128, {"beta": "logit"}),
        ]
    ),
    *(
        Case(lengths, packed=True, H=4, K=D, V=D, dtype="f16", initial_state=True, **more)
        for D, lengths, more in [
            (60, (15,), {"gate": "softplus+bias"}),
            (64, (256, 244, 500), {"gate": "softplus+bias"}),
            (128, (256, 244, 500), {}),
            (100, (15, 85, 200, 900, 800), {"gate": "softplus+bias"}),
            (256, (100, 200, 900, 1800, 1096), {"gate": "safe"}),
            (60, (2048,), {}),
        ]
    ),
]

CHOICES = {
    "lengths": [(1,), (63, 63, 63), (130, 130), (200,), (5, 0, 64, 1, 77), (0, 0), (33,) * 20],
    "packed": [True, False],
    "H": [1, 3, 4],
    "groups": [1, 2, 4],
    "K": [64, 128, 60, 100, 256],
    "V": [64, 128, 60, 256],
    "dtype": ["bf16", "f16", "f32"],
    "gate_type": ["", "f32", "bf16", "f16"],
    "beta_type": ["", "f32", "bf16", "f16"],
    "gate": ["given", "safe", "softplus", "softplus+bias", "bounded", "bounded+bias"],
    "A_log": [True, False],
    "beta": ["given", "logit", "doubled"],
    "l2norm": [True, False],
    "scale": [None, 0.1],
    "v_first": [True, False],
    "initial_state": [True, False],
    "final_state": [True, False],
    "layout": ["contiguous", "head_first", "packed_qkv"],
    "cu_type": ["i64", "i32"],
    "recurrent": [False, True],
}


def legal(words):
    return words["packed"] or len(set(words["lengths"])) == 1


def every_pair(seed=1):
    """Cases in which every two choices meet: greedily, the one of many that brings the most pairs."""
    rng = random.Random(seed)
    names = list(CHOICES)
    open_pairs = {
        ((a, i), (b, j))
        for a, b in itertools.combinations(names, 2)
        for i in range(len(CHOICES[a]))
        for j in range(len(CHOICES[b]))
    }
    cases = []
    idle = 0
    while open_pairs and idle < 200:
        best, gain = None, 0
        for _ in range(40):
            pick = {name: rng.randrange(len(CHOICES[name])) for name in names}
            if open_pairs and rng.random() < 0.7:
                pick.update(rng.choice(sorted(open_pairs)))
            words = {name: CHOICES[name][i] for name, i in pick.items()}
            if not legal(words):
                continue
            new = sum(pair in open_pairs for pair in itertools.combinations(pick.items(), 2))
            if new > gain:
                best, gain = (pick, words), new
        if best is None:
            idle += 1
            continue
        open_pairs -= set(itertools.combinations(best[0].items(), 2))
        cases.append(Case(**best[1], seed=len(cases)))
    return cases


def name_of(case):
    defaults = Case()
    changed = (f"{k}={v}" for k, v in vars(case).items() if v != getattr(defaults, k))
    return ",".join(changed).replace(" ", "")


def agree(case):
    x = inputs(case)
    o, state = call(case, x)
    want_o, want_state = expected(case, x)
    assert o.shape == want_o.shape and o.dtype == x.tensors["v"].dtype
    ratios = {"o": error_ratio(want_o, o)}
    if case.final_state:
        assert state.shape == want_state.shape and state.dtype == torch.float32
        ratios["state"] = error_ratio(want_state, state)
    else:
        assert state is None
    assert max(ratios.values()) < tolerance(case), ratios


@pytest.mark.parametrize("case", FLAS, ids=name_of)
def test_flas_own_cases(case):
    agree(case)


@pytest.mark.parametrize("case", every_pair(), ids=name_of)
def test_every_pair_of_choices(case):
    agree(case)


@pytest.mark.parametrize("recurrent", [False, True])
def test_tokens_past_the_last_sequence_read_as_zeros(recurrent):
    case = Case((40, 30), packed=True, padding=26, recurrent=recurrent)
    x = inputs(case)
    for name in ("q", "k", "v", "g", "beta"):
        x.tensors[name][:, 70:] = torch.nan
    o, _ = call(case, x)
    assert not o[:, 70:].any()
    want, _ = expected(case, x)
    assert error_ratio(want, o) < tolerance(case)
    # Where the host knows that nothing is past it, nothing is zeroed; the result is the same.
    whole = Case((40, 30), packed=True)
    x = inputs(whole)
    cpu = x.words["cu_seqlens"].cpu()
    if not recurrent:
        import kda.torch

        a, _ = kda.torch.chunk_kda(**x.tensors, **x.words, cu_seqlens_cpu=cpu)
        assert torch.equal(a, call(whole, x)[0])


def test_two_halves_are_one_run():
    case = Case((300,), K=128, V=128, gate="bounded+bias", beta="logit", l2norm=True)
    x = inputs(case)
    whole, end = call(case, x)
    first = {name: y[:, :137] for name, y in x.tensors.items()}
    second = {name: y[:, 137:] for name, y in x.tensors.items()}
    import kda.torch

    a, middle = kda.torch.chunk_kda(**first, **x.words)
    b, last = kda.torch.chunk_kda(**second, **{**x.words, "initial_state": middle})
    assert error_ratio(whole, torch.cat([a, b], 1)) < 2 * tolerance(case)
    assert error_ratio(end, last) < 2 * tolerance(case)


def test_any_float_type_of_state_and_parameters():
    """fused_recurrent_kda takes them in FLA; they are copied to float32."""
    case = Case((50,), gate="softplus+bias", initial_state=True, recurrent=True)
    x = inputs(case)
    for name in ("A_log", "dt_bias", "initial_state"):
        x.words[name] = x.words[name].bfloat16()
    o, state = call(case, x)
    for name in ("A_log", "dt_bias", "initial_state"):
        x.words[name] = x.words[name].float()
    same_o, same_state = call(case, x)
    assert torch.equal(o, same_o) and torch.equal(state, same_state)
    # The second call of a signature that needs copies must copy anew.
    x.words["initial_state"] = torch.zeros_like(x.words["initial_state"]).bfloat16()
    o, _ = call(case, x)
    x.words["initial_state"] = x.words["initial_state"].float()
    assert torch.equal(o, call(case, x)[0])


def test_no_sequences():
    x = inputs(Case((0,), packed=True))
    x.words["cu_seqlens"] = x.words["cu_seqlens"][:1]
    o, state = call(Case(packed=True), x)
    assert o.shape == (1, 0, 2, 64) and state.shape == (0, 2, 64, 64)


def test_repeated_calls_are_bitwise_equal_and_make_no_new_plan():
    from kda.torch._plans import plan_for

    case = Case((513,), K=128, V=128, l2norm=True, gate="softplus+bias")
    x = inputs(case)
    o, state = call(case, x)
    plans = plan_for.cache_info().misses
    for _ in range(20):
        again, same = call(case, x)
        assert torch.equal(o, again) and torch.equal(state, same)
    call(case, inputs(Case(**{**vars(case), "lengths": (520,)})))  # of the same bucket
    assert plan_for.cache_info().misses == plans
