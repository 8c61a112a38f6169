"""States in slots: decode, drafts, checkpoints and padding, against the recurrence and one-at-a-time
runs.  Slots that no index names are poisoned and must not change."""

import pytest

torch = pytest.importorskip("torch")

from naive import error_ratio, gated, recurrence  # noqa: E402

import kda  # noqa: E402
from kda.torch import chunk_kda, fused_recurrent_kda, fused_recurrent_kda_fwd, paged_kda  # noqa: E402

WORDS = {
    "use_qk_l2norm_in_kernel": True,
    "use_gate_in_kernel": True,
    "use_beta_sigmoid_in_kernel": True,
    "lower_bound": -5.0,
}
POISON = 1e30


class Model:
    """One layer's random inputs and what the recurrence makes of them."""

    def __init__(self, B, T, H=2, HV=4, K=128, V=128, dtype=torch.bfloat16, seed=0, v_first=True):
        self.maker = torch.Generator("cuda").manual_seed(seed)
        self.dtype, self.v_first = dtype, v_first
        self.dims = (HV, V, K) if v_first else (HV, K, V)
        shapes = {"q": (H, K), "k": (H, K), "v": (HV, V), "g": (HV, K), "beta": (HV,)}
        self.x = {name: self.normal(B, T, *s).to(dtype) for name, s in shapes.items()}
        self.words = {**WORDS, "A_log": self.normal(HV).abs(), "dt_bias": self.normal(HV * K)}

    def normal(self, *shape):
        return torch.randn(shape, generator=self.maker, device="cuda")

    def state(self, count):
        return self.normal(count, *self.dims)

    def expected(self, n, first, last, state):
        """o and the state after the tokens [first, last) of row n, from a state [HV, ...]."""
        q, k, v, g, beta = (y[n : n + 1, first:last] for y in self.x.values())
        q, k = (torch.nn.functional.normalize(y.float(), dim=-1) for y in (q, k))
        g = gated(g, self.words["A_log"], self.words["dt_bias"], -5.0)
        state = None if state is None else self.turned(state[None].float())
        o, state = recurrence(q, k, v, g, beta.float().sigmoid(), None, state)
        return o[0], self.turned(state)[0]

    def turned(self, state):
        return state.transpose(-1, -2) if self.v_first else state

    def call(self, function, *given, part=slice(None), **more):
        x = {name: y[:, part] for name, y in self.x.items()}
        return function(**x, **self.words, state_v_first=self.v_first, **more)


def pool_of(model, count, named, dtype=torch.float32):
    pool = torch.full((count, *model.dims), POISON, device="cuda", dtype=dtype)
    pool[named] = model.state(len(named)).to(dtype)
    return pool


def unnamed_are_untouched(pool, named):
    rest = [i for i in range(pool.shape[0]) if i not in named]
    return bool((pool[rest] == torch.tensor(POISON, dtype=pool.dtype)).all())


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("state_type", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("v_first", [False, True])
def test_decode(kind, state_type, v_first):
    m = Model(5, 1, v_first=v_first)
    slots = [3, 11, 7, 20, 0]
    pool = pool_of(m, 24, slots, state_type)
    before = pool.clone()
    where = torch.tensor(slots, device="cuda", dtype=kind)
    o, same = m.call(fused_recurrent_kda, initial_state=pool, ssm_state_indices=where)
    assert same is pool and unnamed_are_untouched(pool, slots)
    for n, slot in enumerate(slots):
        want, state = m.expected(n, 0, 1, before[slot])
        assert error_ratio(want, o[n]) < 0.005
        assert error_ratio(state, pool[slot]) < 0.005


def test_padding_touches_nothing():
    m = Model(4, 1)
    slots = torch.tensor([2, -1, 99, 5], device="cuda")
    pool = pool_of(m, 8, [2, 5])
    before = pool.clone()
    alone = pool.clone()
    out = torch.full_like(m.x["v"], 7)
    m.call(paged_kda, state_pool=pool, ssm_state_indices=slots, out=out)
    assert (out[1:3] == 7).all() and unnamed_are_untouched(pool, [2, 5])
    o = m.call(paged_kda, state_pool=alone, ssm_state_indices=slots)
    assert not o[1:3].any() and torch.equal(o[[0, 3]], out[[0, 3]]) and torch.equal(alone, pool)
    o, states = m.call(
        fused_recurrent_kda_fwd, initial_state=before, ssm_state_indices=slots,
        inplace_final_state=False, output_final_state=True,
    )  # fmt: skip
    assert torch.equal(o, out.where(out != 7, 0)) and torch.equal(states[[0, 3]], pool[[2, 5]])
    assert not states[1:3].any() and unnamed_are_untouched(before, [2, 5])


@pytest.mark.parametrize("accepted", [1, 2, 4, 0])
def test_drafts(accepted):
    """Four drafted tokens, some accepted, four more: as if only the accepted had ever been."""
    m = Model(3, 8)
    table = torch.arange(12, device="cuda", dtype=torch.int32).view(3, 4)
    pool = pool_of(m, 14, [0, 4, 8])
    before = pool.clone()
    first, _ = m.call(
        fused_recurrent_kda, initial_state=pool, ssm_state_indices=table, part=slice(0, 4)
    )
    after_four = pool.clone()
    counts = torch.full((3,), accepted, device="cuda", dtype=torch.int32)
    second, _ = m.call(
        fused_recurrent_kda, initial_state=pool, ssm_state_indices=table,
        num_accepted_tokens=counts, part=slice(4, 8),
    )  # fmt: skip
    assert unnamed_are_untouched(pool, range(12))
    for n in range(3):
        want, state = m.expected(n, 0, 4, before[4 * n])
        assert error_ratio(want, first[n]) < 0.005
        assert error_ratio(state, after_four[4 * n + 3]) < 0.005
        start = after_four[4 * n + max(accepted, 1) - 1]
        want, state = m.expected(n, 4, 8, start)
        assert error_ratio(want, second[n]) < 0.005
        assert error_ratio(state, pool[4 * n + 3]) < 0.005


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_drafts_are_replayed(kind):
    """Each call begins with what was accepted of the one before; one state a sequence is written."""
    m = Model(3, 12)
    slots = torch.tensor([4, 0, 2], device="cuda")
    pool = pool_of(m, 6, [4, 0, 2])
    before = pool.clone()
    begin, counts = 0, torch.zeros(3, device="cuda", dtype=kind)
    for accepted in (0, 4, 1, 3):  # of the tokens that the call begins with
        counts.fill_(accepted)
        o, same = m.call(
            fused_recurrent_kda, initial_state=pool, ssm_state_indices=slots,
            committed_tokens=counts, part=slice(begin, begin + 4),
        )  # fmt: skip
        assert same is pool and unnamed_are_untouched(pool, [4, 0, 2])
        for n, slot in enumerate(slots.tolist()):
            want, _ = m.expected(n, 0, begin + 4, before[slot])
            assert error_ratio(want[begin:], o[n]) < 0.005
            begun = begin + accepted
            _, state = m.expected(n, 0, begun, before[slot]) if begun else (None, before[slot])
            assert error_ratio(state, pool[slot]) < 0.005
        begin += accepted
    apart = pool.clone()
    _, states = m.call(
        fused_recurrent_kda, initial_state=apart, ssm_state_indices=slots, committed_tokens=counts,
        inplace_final_state=False, output_final_state=True, part=slice(8, 12),
    )  # fmt: skip
    m.call(paged_kda, state_pool=pool, ssm_state_indices=slots, committed_tokens=counts,
           part=slice(8, 12))  # fmt: skip
    assert torch.equal(states, pool[slots]) and unnamed_are_untouched(apart, [4, 0, 2])


def test_prefill_with_checkpoints_resumes_anywhere():
    m = Model(1, 500)
    ends = torch.tensor([0, 200, 500], device="cuda")
    pool = torch.full((12, *m.dims), POISON, device="cuda")
    slots = torch.tensor([0, 1], device="cuda")
    fresh = torch.tensor([-1, -1], device="cuda")
    kept = torch.tensor([[2, 3, 4, -1], [5, 6, -1, 7]], device="cuda")
    words = {"state_pool": pool, "cu_seqlens": ends, "checkpoint_tokens": 64}
    o = m.call(paged_kda, ssm_state_indices=slots, initial_state_indices=fresh,
               checkpoint_indices=kept, **words)  # fmt: skip
    assert unnamed_are_untouched(pool, range(8))
    for n, (a, b) in enumerate(((0, 200), (200, 500))):
        want, state = m.expected(0, a, b, None)
        assert error_ratio(want, o[0, a:b]) < 0.005 and error_ratio(state, pool[n]) < 0.005
        for j, slot in enumerate(kept[n].tolist()):
            if slot >= 0:
                _, state = m.expected(0, a, a + 64 * (j + 1), None)
                assert error_ratio(state, pool[slot]) < 0.005
    # From the checkpoint after 128 tokens of the second sequence: the rest, into a new slot.
    rest = m.call(
        paged_kda, part=slice(328, 500), state_pool=pool,
        ssm_state_indices=torch.tensor([9], device="cuda"),
        initial_state_indices=torch.tensor([6], device="cuda"),
        cu_seqlens=torch.tensor([0, 172], device="cuda"),
    )  # fmt: skip
    assert error_ratio(o[:, 328:], rest) < 0.01 and error_ratio(pool[1], pool[9]) < 0.01
    assert unnamed_are_untouched(pool, [*range(8), 9])


def test_a_mixed_batch():
    lengths = [1] * 20 + [700] + [1] * 20
    m = Model(1, sum(lengths))
    ends = torch.tensor([0, *lengths], device="cuda").cumsum(0)
    pool = pool_of(m, 50, range(41))
    before = pool.clone()
    o = m.call(paged_kda, state_pool=pool, ssm_state_indices=torch.arange(41, device="cuda"),
               cu_seqlens=ends, mixed_lengths=True)  # fmt: skip
    assert unnamed_are_untouched(pool, range(41))
    for n in (0, 19, 20, 21, 40):
        a, b = ends[n].item(), ends[n + 1].item()
        want, state = m.expected(0, a, b, before[n])
        assert error_ratio(want, o[0, a:b]) < 0.005 and error_ratio(state, pool[n]) < 0.005


def test_a_graph_replays_with_other_slots():
    m = Model(4, 1)
    pool = pool_of(m, 16, range(16))
    before = pool.clone()
    slots = torch.tensor([0, 1, 2, 3], device="cuda")
    m.call(fused_recurrent_kda, initial_state=pool, ssm_state_indices=slots)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, _ = m.call(fused_recurrent_kda, initial_state=pool, ssm_state_indices=slots)
    for named in ([5, 9, 15, 0], [7, -1, 8, -1]):
        pool.copy_(before)
        slots.copy_(torch.tensor(named))
        graph.replay()
        found, states = o.clone(), pool.clone()
        pool.copy_(before)
        want, _ = m.call(fused_recurrent_kda, initial_state=pool, ssm_state_indices=slots)
        assert torch.equal(found, want) and torch.equal(states, pool)
        assert not torch.equal(states, before)


@pytest.mark.parametrize("counts", [None, [0, 1, 3, 2]])
def test_compiled_is_eager(counts):
    torch.compiler.reset()
    m = Model(4, 3)
    committed = None if counts is None else torch.tensor(counts, device="cuda")
    pool = pool_of(m, 16, range(16))
    before = pool.clone()
    slots = torch.tensor([3, 1, 8, -1], device="cuda", dtype=torch.int32)

    @torch.compile(fullgraph=True)
    def layer(pool, slots):
        o, _ = m.call(
            fused_recurrent_kda,
            initial_state=pool,
            ssm_state_indices=slots,
            committed_tokens=committed,
        )
        return o * 2

    doubled = layer(pool, slots)
    states = pool.clone()
    pool.copy_(before)
    o, _ = m.call(
        fused_recurrent_kda,
        initial_state=pool,
        ssm_state_indices=slots,
        committed_tokens=committed,
    )
    assert torch.equal(doubled, o * 2) and torch.equal(states, pool)


@pytest.mark.parametrize("T", [1, 3])
def test_in_place_without_indices(T):
    m = Model(3, T)
    state = m.state(3)
    want_o, want = m.call(fused_recurrent_kda, initial_state=state.clone(), output_final_state=True)
    o, same = m.call(fused_recurrent_kda, initial_state=state, inplace_final_state=True)
    assert same is state and torch.equal(state, want) and torch.equal(o, want_o)


def test_strided_slices_of_a_packed_projection():
    m = Model(6, 1, H=4, HV=4)
    slots = torch.arange(6, device="cuda")
    pool = pool_of(m, 6, range(6))
    other = pool.clone()
    want, _ = m.call(fused_recurrent_kda, initial_state=pool, ssm_state_indices=slots)
    wide = torch.cat([m.x[name].flatten(2) for name in ("q", "k", "v")], -1)
    for name, part in zip(("q", "k", "v"), wide.chunk(3, -1)):
        m.x[name] = part.unflatten(-1, (4, 128))
    o, _ = m.call(fused_recurrent_kda, initial_state=other, ssm_state_indices=slots)
    assert torch.equal(o, want) and torch.equal(other, pool)


def test_flas_paged_decode():
    """Against fla.ops.kda.fused_recurrent.fused_recurrent_kda_fwd, where that is right."""
    fla = pytest.importorskip("fla.ops.kda.fused_recurrent", reason="fla-core is not installed")
    m = Model(16, 1, H=16, HV=16, v_first=False)
    slots = torch.randperm(48, device="cuda")[:16]
    ours = pool_of(m, 48, slots.tolist())
    theirs = ours.clone()
    words = {"inplace_final_state": True, "ssm_state_indices": slots}
    o, _ = m.call(fused_recurrent_kda_fwd, initial_state=ours, **words)
    want, _ = m.call(fla.fused_recurrent_kda_fwd, initial_state=theirs, **words)
    assert error_ratio(want, o) < 0.01 and error_ratio(theirs[slots], ours[slots]) < 0.005
    assert unnamed_are_untouched(ours, slots.tolist())


def test_prefill_then_decode_is_one_run():
    m = Model(1, 140)
    whole, end = m.call(chunk_kda, output_final_state=True)
    pool = torch.full((3, *m.dims), POISON, device="cuda")
    one = torch.tensor([1], device="cuda")
    parts = [
        m.call(paged_kda, part=slice(0, 130), state_pool=pool, ssm_state_indices=one,
               initial_state_indices=torch.tensor([-1], device="cuda"))
    ]  # fmt: skip
    for t in range(130, 140):
        parts.append(
            m.call(paged_kda, part=slice(t, t + 1), state_pool=pool, ssm_state_indices=one)
        )
    assert error_ratio(whole, torch.cat(parts, 1)) < 0.01
    assert error_ratio(end[0], pool[1]) < 0.01 and unnamed_are_untouched(pool, [1])


def test_plan_run_on_slots():
    m = Model(4, 1)
    problem = kda.Problem(heads=2, value_heads=4, max_tokens=4, max_sequences=4, state_pool=True,
                          initial_state=True, final_state=True)  # fmt: skip
    pool = pool_of(m, 9, [1, 2, 3, 4])
    other = pool.clone()
    slots = torch.tensor([4, 2, 1, 3], device="cuda", dtype=torch.int32)
    want, _ = m.call(fused_recurrent_kda, initial_state=other, ssm_state_indices=slots)
    o = torch.empty_like(want)
    kda.Plan(problem).run(
        **m.x, o=o, A_log=m.words["A_log"], dt_bias=m.words["dt_bias"].view(4, 128),
        initial_state=pool, final_state=pool, pool=kda.StatePool(slots),
    )  # fmt: skip
    assert error_ratio(want, o) < 0.01 and error_ratio(other[1:5], pool[1:5]) < 0.005
    assert unnamed_are_untouched(pool, [1, 2, 3, 4])
