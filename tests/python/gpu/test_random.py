"""1,000 random problems against naive_recurrent_kda; hypothesis shrinks what fails.

KDA_RANDOM says how many in all (1000).  They are split over 16 shards for pytest-xdist.  What a
kernel is specialised on is drawn from a fixed number of models, as a compile costs a second and a
run a millisecond; everything else is free.
"""

import os
import random

import pytest

torch = pytest.importorskip("torch")
hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from gpu.cases import Case, call, expected, inputs, tolerance  # noqa: E402
from hypothesis import HealthCheck, given, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from naive import error_ratio  # noqa: E402

SHARDS = 16
COUNT = int(os.environ.get("KDA_RANDOM", "1000"))


def models(count=48):
    rng = random.Random(7)
    found = []
    for _ in range(count):
        gate = rng.choice(["given", "safe", "softplus", "softplus+bias", "bounded", "bounded+bias"])
        found.append(
            {
                "H": rng.choice([1, 2, 3, 5]),
                "groups": rng.choice([1, 1, 2, 3, 4]),
                "K": rng.choice([64, 128, 128, 60, 100, 256, rng.randint(1, 256)]),
                "V": rng.choice([64, 128, 128, 60, 100, 256, rng.randint(1, 300)]),
                "dtype": rng.choice(["bf16", "f16", "f32"]),
                "gate_type": rng.choice(["", "", "f32", "bf16", "f16"]),
                "beta_type": rng.choice(["", "", "f32", "bf16", "f16"]),
                "gate": gate,
                "A_log": rng.random() < 0.8,
                "beta": rng.choice(["given", "logit", "doubled"]),
                "l2norm": rng.random() < 0.5,
                "v_first": rng.random() < 0.5,
                "scale": rng.choice([None, None, 0.1, 1.0]),
                "initial_state": rng.random() < 0.5,
                "final_state": rng.random() < 0.8,
                "packed": rng.random() < 0.5,
                "cu_type": rng.choice(["i32", "i64"]),
            }
        )
    return found


MODELS = models()

lengths = st.one_of(
    st.integers(0, 20), st.integers(0, 200), st.sampled_from([15, 16, 17, 31, 32, 33, 63, 64, 65])
)


@st.composite
def cases(draw, shard):
    model = MODELS[draw(st.sampled_from(range(shard, len(MODELS), SHARDS)))]
    if model["packed"]:
        rows = tuple(draw(st.lists(lengths, min_size=1, max_size=6)))
        padding = draw(st.sampled_from([0, 0, 1, 40]))
    else:
        rows = (draw(lengths),) * draw(st.integers(1, 4))
        padding = 0
    return Case(
        **model,
        lengths=rows,
        padding=padding,
        layout=draw(st.sampled_from(["contiguous", "contiguous", "head_first", "packed_qkv"])),
        recurrent=draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
    )


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_problems(shard, record_property, time_is_up):
    count = COUNT // SHARDS + (shard < COUNT % SHARDS)
    agreed = 0

    @seed(shard)
    @settings(
        max_examples=max(count, 1),
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(shard))
    def agrees(case):
        nonlocal agreed
        if time_is_up():
            return
        x = inputs(case)
        o, state = call(case, x)
        want_o, want_state = expected(case, x)
        assert error_ratio(want_o, o) < tolerance(case)
        if case.final_state:
            assert error_ratio(want_state, state) < tolerance(case)
        agreed += 1

    try:
        agrees()
    finally:
        record_property("random problems", agreed)
