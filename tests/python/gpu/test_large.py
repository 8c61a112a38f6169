"""Tensors of more than 2^31 elements, of 16 bits of more than 2^32: no offset has 32 bits.

Gates forget within some tokens, so a window of a long run is compared with a run of that window
alone, a little before it on.
"""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from naive import error_ratio  # noqa: E402

import kda  # noqa: E402
import kda.torch  # noqa: E402

GB = 10**9
LEAD = 512  # tokens, after which nothing is left of what was before


def need(gigabytes):
    free, _ = torch.cuda.mem_get_info()
    free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    if free < gigabytes * GB:
        pytest.skip(f"{gigabytes} GB of device memory are needed, {free // GB} are free")


@pytest.fixture(autouse=True)
def _all_memory_back():
    yield
    torch.cuda.empty_cache()


def normal(*shape, kind=torch.bfloat16):
    return torch.empty(shape, dtype=kind, device="cuda").normal_()


def run(problem, strategy, tensors, sequences=1, cu_seqlens=None, state=False):
    """o, and the final states if they are wanted."""
    t, heads = tensors["v"].shape[0], problem.heads
    problem = dataclasses.replace(problem, max_tokens=t, max_sequences=sequences, final_state=state)
    name, _, tuning = strategy.partition(" ")
    plan = kda.Plan(problem, kda.Options(strategy=name, tuning=tuning))
    o = torch.full_like(tensors["v"], torch.nan)
    final = None
    if state:
        final = torch.full((sequences, heads, 128, 128), torch.nan, device="cuda")
    plan.run(**tensors, o=o, A_log=torch.full((heads,), 0.5, device="cuda"), final_state=final,
             cu_seqlens=cu_seqlens, sequences=None if cu_seqlens is not None else sequences)  # fmt: skip
    torch.cuda.synchronize()
    return o, final


def agree(problem, strategy, tensors, o, final, starts, rows=1024):
    for start in starts:
        window = slice(start - LEAD, start + rows)
        part = {name: x[window].contiguous() for name, x in tensors.items()}
        want, want_final = run(problem, strategy, part, state=final is not None)
        assert not o[start : start + rows].isnan().any()
        assert error_ratio(want[LEAD:], o[start : start + rows]) < 5e-3
        if final is not None and start + rows == o.shape[0]:
            assert error_ratio(want_final, final[-1:]) < 5e-3


LONG = [
    ("bf16", "chunk"),
    ("bf16", "chunk_wgmma stages_at_once=1"),
    ("bf16", "chunk_wgmma stages_at_once=2"),
    ("f16", "chunk_wgmma"),
    ("bf16", "segments segments=1 segment=1024"),
    ("bf16", "segments segments=5"),
    ("bf16", "fused groups=3"),
    ("bf16", "fused groups=4"),
    ("bf16", "by_gates carries=1"),
    ("bf16", "by_gates carries=2"),
    ("f32", "chunk"),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind, strategy", LONG)
def test_a_long_sequence(kind, strategy, packed):
    if packed and strategy.startswith(("by_gates", "segments segments=5")):
        pytest.skip("dense sequences are served")
    need(120)
    heads, tokens = 8, 2**22 + 2**12 + 77  # 4.3 G elements
    if kind == "f32":
        heads = 5  # 2.7 G elements, 11 GB a tensor
    word = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[kind]
    problem = kda.Problem(heads=heads, qkv_type=kind, gate_type=kind, beta_type=kind, varlen=packed)
    tensors = {name: normal(tokens, heads, 128, kind=word) for name in ("q", "k", "v", "g")}
    tensors["beta"] = normal(tokens, heads, kind=word)
    ends = None
    sequences = 1
    if packed:  # three short ones before it
        ends = torch.tensor([0, 100, 133, 4000, tokens], device="cuda")
        sequences = 4
    o, final = run(problem, strategy, tensors, sequences, ends, state=True)
    alone = dataclasses.replace(problem, varlen=False)
    places = [2**31 // (heads * 128), 2**32 // (heads * 128)]
    starts = [at - 500 for at in places if at + 600 < tokens] + [tokens - 1024]
    agree(alone, strategy, tensors, o, final, starts)


@pytest.mark.parametrize(
    "strategy", ["fused groups=4", "chunk_wgmma stages_at_once=1", "recurrent"]
)
def test_many_sequences(strategy):
    """Of few tokens: their states are 2.6 G elements."""
    need(60)
    heads, sequences, length = 32, 5000, 32
    problem = kda.Problem(heads=heads)
    tokens = sequences * length
    tensors = {name: normal(tokens, heads, 128) for name in ("q", "k", "v", "g")}
    tensors["beta"] = normal(tokens, heads)
    o, final = run(problem, strategy, tensors, sequences, state=True)
    for first in (0, 4095, 4096, 4999):  # the third begins at 2^31 elements
        rows = slice(first * length, (first + 1) * length)
        part = {name: x[rows].contiguous() for name, x in tensors.items()}
        want, want_final = run(problem, strategy, part, state=True)
        assert torch.equal(want, o[rows])
        assert torch.equal(want_final[0], final[first])


APART = ["chunk", "chunk_wgmma", "segments", "fused", "recurrent"]


@pytest.mark.parametrize("strategy", APART)
def test_rows_far_apart(strategy):
    """2^24 elements and a few from token to token: 4.6 G elements from the first to the last."""
    need(60)
    heads, tokens, stride = 2, 275, 2**24 + 8
    problem = kda.Problem(heads=heads)
    dense = {name: normal(tokens, heads, 128) for name in ("q", "k", "v", "g")}
    dense["beta"] = normal(tokens, heads)
    far = dict(dense)
    for name in ("q", "k", "v", "g"):
        memory = torch.empty(tokens * stride, dtype=torch.bfloat16, device="cuda")
        far[name] = memory.as_strided((tokens, heads, 128), (stride, 128, 1))
        far[name].copy_(dense[name])
    plan = kda.Plan(dataclasses.replace(problem, max_tokens=tokens), kda.Options(strategy=strategy))
    o = torch.full_like(dense["v"], torch.nan)
    words = {"A_log": torch.full((heads,), 0.5, device="cuda")}
    plan.run(**dense, o=o, **words)
    there = torch.empty(tokens * stride, dtype=torch.bfloat16, device="cuda")
    there = there.as_strided((tokens, heads, 128), (stride, 128, 1))
    there.fill_(torch.nan)
    plan.run(**far, o=there, **words)
    assert torch.equal(o, there)


@pytest.mark.parametrize("state", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 3, 200])
def test_pools_past_2_to_31(state, length):
    need(60)
    heads, slots = 32, 8300  # 4.35 G elements
    pool = torch.zeros((slots, heads, 128, 128), dtype=state, device="cuda")
    indices = torch.tensor([8299, 0, 4095, 4096, 8191, 8192], device="cuda")
    pool[indices] = normal(len(indices), heads, 128, 128, kind=torch.float32).to(state)
    small = pool[indices].clone()
    n = len(indices)
    tensors = [normal(1, n * length, heads, 128) for _ in range(4)]
    tensors.append(normal(1, n * length, heads).sigmoid())
    tensors[3] = -tensors[3].abs()
    ends = torch.arange(n + 1, device="cuda") * length

    def call(states, at):
        o, _ = kda.torch.fused_recurrent_kda(
            *tensors, initial_state=states, ssm_state_indices=at, cu_seqlens=ends,
            use_qk_l2norm_in_kernel=True, state_v_first=True, inplace_final_state=True,
        )  # fmt: skip
        return o

    want = call(small, torch.arange(n, device="cuda"))
    have = call(pool, indices)
    assert torch.equal(want, have)
    assert torch.equal(small, pool[indices])
    pool[indices] = 0
    assert not pool.any()
