"""What a torch call hands to the library, field by field, on CPU tensors that nothing reads."""

import ctypes

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from launching import inputs  # noqa: E402

import kda  # noqa: E402
from kda.torch import (  # noqa: E402
    _call,
    _ops,
    chunk_kda,
    flash,
    flash_kda_fwd,
    fused_recurrent_kda,
    fused_recurrent_kda_fwd,
    paged_kda,
)


def strides(s):
    return s.sequence, s.token, s.head


def test_chunk_kda(launches):
    q, k, v, g, beta = inputs(T=8)
    wide = torch.zeros(3, 8, 5, 64, dtype=torch.bfloat16)
    q = wide[:, :, 1:3]
    h0 = torch.zeros(3, 4, 64, 32)
    A_log, dt_bias = torch.zeros(4), torch.zeros(256)
    for _ in range(2):  # the second is remembered
        o, state = chunk_kda(q, k, v, g, beta, initial_state=h0, output_final_state=True,
                             use_gate_in_kernel=True, A_log=A_log, dt_bias=dt_bias)  # fmt: skip
        f = launches[-1]
        assert (f.tokens, f.sequences, f.cu_seqlens) == (24, 3, None)
        found = [
            f.q,
            f.k,
            f.v,
            f.g,
            f.beta,
            f.A_log,
            f.dt_bias,
            f.initial_state,
            f.o,
            f.final_state,
        ]
        given = [q, k, v, g, beta, A_log, dt_bias, h0, o, state]
        assert found == [x.data_ptr() for x in given]
        assert strides(f.q_strides) == (2560, 320, 64)
        assert strides(f.beta_strides) == (32, 4, 1)
        assert f.pool.slots == 0 and not f.pool.indices.data
    assert launches.problem.gate is kda.Gate.softplus and not launches.problem.state_pool
    assert launches.problem.state_layout is kda.StateLayout.key_first


def test_packed(launches):
    x = inputs(B=1, T=24)
    cu = torch.tensor([0, 4, 24])
    o, state = fused_recurrent_kda(*x, cu_seqlens=cu, output_final_state=True)
    f = launches[-1]
    assert (f.tokens, f.sequences, f.cu_seqlens) == (24, 2, cu.data_ptr())
    assert state.shape == (2, 4, 64, 32) and not o.any()


# Bug: of cu_seqlens_cpu the end alone was looked at, and rows before the first sequence were as the
# allocator left them.
@pytest.mark.parametrize("ends", [(0, 4, 9), (4, 6, 9), (0, 4, 8), (1, 8), (0, 9), (9, 0)])
def test_rows_of_no_sequence_are_zeros(launches, monkeypatch, ends):
    empty = _call._empty
    monkeypatch.setattr(_call, "_empty", lambda *like: empty(*like).fill_(7))
    x, cu = inputs(B=1, T=9), torch.tensor(ends)
    for on_host in (None, cu, cu.int()):
        for _ in range(2):  # the second is remembered
            o, _ = chunk_kda(*x, cu_seqlens=cu, cu_seqlens_cpu=on_host)
            all_written = on_host is not None and (ends[0], ends[-1]) == (0, 9)
            assert o.any() == all_written


def test_flash(launches, monkeypatch):
    q, k, v, g, beta = inputs()
    out, state = torch.empty_like(v), torch.zeros(3, 4, 32, 64, dtype=torch.bfloat16)
    monkeypatch.setattr(flash, "_check", lambda *_: None)
    flash_kda_fwd(q, k, v, g, beta, 0.5, out, torch.zeros(4), torch.zeros(4, 64), -4.0,
                  initial_state=state, final_state=state)  # fmt: skip
    f = launches[-1]
    assert f.o == out.data_ptr() and f.initial_state == f.final_state == state.data_ptr()
    problem = launches.problem
    assert (problem.scale, problem.lower_bound, problem.state_type) == (
        0.5,
        -4.0,
        kda.DType.bf16,
    )


# Bug: the devices of what is written were not compared with q's: another's memory was written.
def test_flash_writes_on_the_device_of_q(launches, monkeypatch):
    need = flash._need
    monkeypatch.setattr(flash, "_need", lambda ok, why: need(ok or "a CUDA device" in why, why))
    q, k, v, g, beta = inputs()
    words = {"A_log": torch.zeros(4), "dt_bias": torch.zeros(4, 64), "lower_bound": -5.0}
    good = {"out": torch.empty_like(v), "final_state": torch.zeros(3, 4, 32, 64)}
    for _ in range(2):
        flash_kda_fwd(q, k, v, g, beta, 1.0, **good, **words)
        for name, x in good.items():
            wrong = {**good, name: x.to("meta")}
            with pytest.raises(RuntimeError, match=f"{name} is .* on meta; it .* as q, on cpu"):
                flash_kda_fwd(q, k, v, g, beta, 1.0, **wrong, **words)
    assert len(launches) == 2


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("state_type", [torch.float32, torch.bfloat16])
def test_decode_from_a_pool(launches, kind, state_type):
    x = inputs()
    pool = torch.zeros(10, 5, 64, 32, dtype=state_type)[:, :4]  # slots apart
    slots = torch.tensor([4, -1, 7], dtype=kind)
    for _ in range(2):
        o, same = fused_recurrent_kda_fwd(*x, initial_state=pool, ssm_state_indices=slots)
        assert same is pool and o.shape == x[2].shape
        f = launches[-1]
        assert f.initial_state == f.final_state == pool.data_ptr()
        assert (f.pool.slots, f.pool.stride) == (10, 5 * 64 * 32)
        table = f.pool.indices
        assert (table.data, table.columns) == (slots.data_ptr(), 1)
        assert not f.pool.initial_indices and not f.pool.num_accepted_tokens
        assert not f.pool.checkpoints.data
    problem = launches.problem
    assert problem.state_pool and problem.zero_padding and not problem.draft_states
    assert problem.slot_index_type is (kda.Index.i32 if kind == torch.int32 else kda.Index.i64)
    assert problem.state_type.name == ("f32" if state_type == torch.float32 else "bf16")
    same_call = fused_recurrent_kda(*x, initial_state=pool, ssm_state_indices=slots)
    assert same_call[1] is pool


def test_drafts(launches):
    x = inputs(T=4)
    pool = torch.zeros(20, 4, 32, 64)
    table = torch.arange(18, dtype=torch.int32).view(3, 6)[:, :4]
    accepted = torch.ones(3, dtype=torch.int64)
    out = torch.ones_like(x[2])
    o, _ = fused_recurrent_kda_fwd(
        *x, initial_state=pool, ssm_state_indices=table, num_accepted_tokens=accepted,
        state_v_first=True, out=out,
    )  # fmt: skip
    assert o is out
    f = launches[-1]
    assert f.o == out.data_ptr()
    indices = f.pool.indices
    assert (indices.data, indices.columns, indices.stride) == (table.data_ptr(), 4, 6)
    assert f.pool.num_accepted_tokens not in (None, accepted.data_ptr())  # as int32
    assert launches.problem.draft_states and not launches.problem.zero_padding


# The bug: with one column the library was handed num_accepted_tokens for a plan without draft
# states, and refused it.
def test_accepted_tokens_of_one_column_change_nothing(launches):
    pool = torch.zeros(20, 4, 64, 32)
    table = torch.arange(3, dtype=torch.int32)[:, None]
    for accepted in (torch.ones(3, dtype=torch.int32), torch.tensor([2, 0, -1])):
        for _ in range(2):  # the second is remembered
            fused_recurrent_kda_fwd(
                *inputs(), initial_state=pool, ssm_state_indices=table,
                num_accepted_tokens=accepted,
            )  # fmt: skip
            f = launches[-1]
            indices = f.pool.indices
            assert (indices.data, indices.columns) == (table.data_ptr(), 1)
            assert not f.pool.num_accepted_tokens and not launches.problem.draft_states
    with pytest.raises(ValueError, match="num_accepted_tokens and initial_indices are given"):
        paged_kda(*inputs(), pool, table, initial_state_indices=accepted,
                  num_accepted_tokens=accepted)  # fmt: skip


@pytest.mark.parametrize("call", [fused_recurrent_kda, fused_recurrent_kda_fwd])
def test_committed_tokens(launches, call):
    x = inputs(T=4)
    pool = torch.zeros(20, 4, 64, 32)
    slots = torch.arange(3, dtype=torch.int32)
    counts = torch.tensor([4, 0, 2], dtype=torch.int32)
    for committed in (counts, counts.clone()):
        o, same = call(
            *x, initial_state=pool, ssm_state_indices=slots, committed_tokens=committed
        )
        assert same is pool
        assert launches[-1].committed_tokens == committed.data_ptr()
    assert launches.problem.committed_tokens and not launches.problem.draft_states
    wide = counts.long()
    call(*x, initial_state=pool, ssm_state_indices=slots, committed_tokens=wide)
    assert launches[-1].committed_tokens not in (None, wide.data_ptr())  # as int32
    call(*x, initial_state=pool, ssm_state_indices=slots[:, None], committed_tokens=counts)
    assert launches[-1].committed_tokens == counts.data_ptr()
    call(*x, initial_state=pool, ssm_state_indices=slots)
    assert not launches[-1].committed_tokens and not launches.problem.committed_tokens


@pytest.mark.parametrize("name", ["indices", "checkpoints", "committed_tokens"])
def test_slots_of_another_device_are_named(launches, name):
    far = {name: torch.zeros(3, dtype=torch.int32, device="meta")}
    indices = far.get("indices", torch.arange(3))
    checkpoints, committed = far.get("checkpoints"), far.get("committed_tokens")
    with pytest.raises(ValueError, match=f"^{name} is on meta and the pool on cpu"):
        paged_kda(
            *inputs(), torch.zeros(20, 4, 64, 32), indices, checkpoint_indices=checkpoints,
            checkpoint_tokens=64 if checkpoints is not None else 0, committed_tokens=committed,
        )  # fmt: skip
    assert not launches


@pytest.mark.parametrize("call", [chunk_kda, fused_recurrent_kda, fused_recurrent_kda_fwd])
def test_beta_promised_to_be_at_most_one(launches, call):
    x = inputs(T=4)
    words = {"inplace_final_state": False} if call is fused_recurrent_kda_fwd else {}
    for promise in (True, False):
        call(*x, beta_at_most_one=promise, **words)
        assert launches.problem.beta_at_most_one is promise
    call(*x, use_beta_sigmoid_in_kernel=True, beta_at_most_one=True, **words)
    assert not launches.problem.beta_at_most_one  # known of logits
    pool, slots = torch.zeros(20, 4, 64, 32), torch.arange(3, dtype=torch.int32)
    if call is not chunk_kda:
        call(*x, initial_state=pool, ssm_state_indices=slots, beta_at_most_one=True)
        assert launches.problem.beta_at_most_one and launches.problem.state_pool
    paged_kda(*x, pool, slots, beta_at_most_one=True)
    assert launches.problem.beta_at_most_one


# Bug: slots of more rows than sequences, as an engine's buffers have, were refused, though FLA
# reads the first N.
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("columns", [None, 2])
def test_slots_may_be_longer_than_the_sequences(launches, packed, columns):
    B, T = (1, 6) if packed else (3, 2)
    cu = torch.tensor([0, 2, 4, 6]) if packed else None
    pool = torch.arange(9.0)[:, None, None, None].expand(9, 4, 64, 32).contiguous()
    slots, accepted = torch.tensor([4, -1, 7, 8, 5]), torch.tensor([2, 1, 0])
    words = {"initial_state": pool, "ssm_state_indices": slots, "cu_seqlens": cu}
    if columns:
        slots = torch.stack([slots, slots.flip(0)], 1)
        words.update(ssm_state_indices=slots, num_accepted_tokens=accepted)
    for _ in range(2):  # the second is remembered
        fused_recurrent_kda_fwd(*inputs(B, T), **words)
        f = launches[-1]
        assert f.sequences == 3 and f.pool.indices.data == slots.data_ptr()
        assert f.pool.num_accepted_tokens == (accepted.data_ptr() if columns else None)
    rows = []
    launches.look = lambda f: rows.append([*(ctypes.c_int64 * 3).from_address(f.pool.indices.data)])
    _, state = fused_recurrent_kda_fwd(
        *inputs(B, T), **words, inplace_final_state=False, output_final_state=True
    )
    assert state.shape == (3, 4, 64, 32) and rows == [[0, -1, 2]]
    assert state[:, 0, 0, 0].tolist() == ([5.0, 0.0, 7.0] if columns else [4.0, 0.0, 7.0])
    paged_kda(*inputs(B, T), pool, slots, initial_state_indices=accepted, cu_seqlens=cu)
    assert launches[-1].pool.initial_indices == accepted.data_ptr()


# Bug: a table of one row and a pool of one slot were refused for the stride of what has no second.
def test_a_single_row_or_slot_has_no_stride(launches):
    row = torch.arange(4)[:, None].t()  # of strides [1, 1], and contiguous
    pool, one_slot = torch.zeros(20, 4, 64, 32), torch.zeros(4, 1, 64, 32).transpose(0, 1)
    start = torch.zeros(1, dtype=torch.int64)
    for _ in range(2):  # the second is remembered
        paged_kda(*inputs(1, 4), pool, row, num_accepted_tokens=start)
        slots = launches[-1].pool.indices
        assert (slots.data, slots.columns, slots.stride) == (row.data_ptr(), 4, 0)
        paged_kda(*inputs(1, 256), pool, start, checkpoint_indices=row, checkpoint_tokens=64)
        kept = launches[-1].pool.checkpoints
        assert (kept.data, kept.columns, kept.stride) == (row.data_ptr(), 4, 0)
        paged_kda(*inputs(1), one_slot, start)
        assert (launches[-1].pool.slots, launches[-1].pool.stride) == (1, 0)
    paged_kda(*inputs(2, 4), pool[::2], torch.zeros(2, 6, dtype=torch.int64)[:, :4])
    assert launches[-1].pool.stride == 2 * 4 * 64 * 32 and launches[-1].pool.indices.stride == 6


def test_prefill_with_checkpoints(launches):
    x = inputs(B=1, T=300)
    cu = torch.tensor([0, 100, 300])
    pool = torch.zeros(20, 4, 64, 32)
    slots, start = torch.tensor([1, 2]), torch.tensor([-1, 5])
    kept = torch.tensor([[7, -1, -1], [8, 9, 10]])
    paged_kda(*x, pool, slots, initial_state_indices=start, checkpoint_indices=kept,
              checkpoint_tokens=64, cu_seqlens=cu, mixed_lengths=True)  # fmt: skip
    f = launches[-1]
    assert f.pool.initial_indices == start.data_ptr()
    table = f.pool.checkpoints
    assert (table.data, table.columns, table.stride) == (kept.data_ptr(), 3, 3)
    problem = launches.problem
    assert problem.checkpoint_tokens == 64 and problem.mixed_lengths and problem.varlen


def test_a_pool_that_stays_as_it_is(launches):
    x = inputs()
    pool = torch.arange(5.0)[:, None, None, None].expand(5, 4, 64, 32).contiguous()
    table = torch.tensor([[4, 3], [-1, 0], [2, 1]])
    accepted = torch.tensor([2, 1, 0])
    o, state = fused_recurrent_kda_fwd(
        *x, initial_state=pool, ssm_state_indices=table, num_accepted_tokens=accepted,
        inplace_final_state=False, output_final_state=True,
    )  # fmt: skip
    # Where sequences start: after two tokens, nowhere, in the first slot.
    assert state[:, 0, 0, 0].tolist() == [3.0, 0.0, 2.0]
    f = launches[-1]
    assert f.initial_state == state.data_ptr() and f.pool.slots == 3
    assert not launches.problem.draft_states


# The bug: copies kept the strides of what they are of, and were refused, though the caller's own is
# read alone.
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("words", [{}, {"ssm_state_indices": torch.tensor([4, 0, -1])}])
def test_states_that_are_only_read_may_have_any_strides(launches, kind, words):
    x = inputs()
    given = torch.rand(5 if words else 3, 4, 32, 64).to(kind).mT
    before = given.clone()
    for out in (None, torch.empty_like(x[2])):
        _, state = fused_recurrent_kda_fwd(
            *x, initial_state=given, inplace_final_state=False, output_final_state=True, out=out,
            **words,
        )  # fmt: skip
        assert state.is_contiguous() and state.dtype == torch.float32
        if out is not None and not words:
            assert torch.equal(state, given.float())  # nothing ran
        elif words:
            assert torch.equal(state[:2], given[[4, 0]].float()) and not state[2].any()
    assert torch.equal(given, before) and len(launches) == 2


# The bug: a slot was read in place of a padded one, which an empty pool has not: an IndexError; and
# in place the library was handed no address.
@pytest.mark.parametrize("accepted", [None, torch.tensor([1, 2, 0])])
def test_of_an_empty_pool_all_is_padding(launches, accepted):
    x = inputs()
    pool = torch.ones(5, 4, 64, 32)[:0]
    table = torch.tensor([[4, 3], [-1, 0], [0, 1]])
    slots = table[:, 0].contiguous() if accepted is None else table
    words = {"initial_state": pool, "ssm_state_indices": slots, "num_accepted_tokens": accepted}
    rows = []
    launches.look = lambda f: rows.extend((ctypes.c_int64 * 3).from_address(f.pool.indices.data))
    _, state = fused_recurrent_kda_fwd(
        *x, **words, inplace_final_state=False, output_final_state=True
    )
    assert state.shape == (3, 4, 64, 32) and state.dtype == torch.float32 and not state.any()
    assert len(launches) == 1 and launches.problem.zero_padding
    assert rows == [-1, -1, -1]
    for _ in range(2):  # in place there is nothing to launch
        o, same = fused_recurrent_kda_fwd(*x, **words)
        assert same is pool and o.shape == x[2].shape and not o.any()
        out = torch.ones_like(o)
        fused_recurrent_kda_fwd(*x, **words, out=out)
        assert out.all()
    assert len(launches) == 1


def test_an_operator_of_an_empty_pool(launches):
    x = (*inputs(), None, None, torch.zeros(0, 4, 64, 32), None)
    rule = (0.0, int(kda.Gate.log_decay), -5.0, False, False, False, False, False)
    for zero_padding in (True, False):
        out = torch.ones_like(x[2])
        slots = (torch.arange(3), None, None, None, None)
        _ops._paged_cuda(*x, *slots, *rule, 0, zero_padding, False, out)
        assert out.any() != zero_padding
    assert not launches


# The bug: the operator wrote states into a tensor of any shape and strides as if it fitted.
def test_an_operator_looks_at_its_final_state(launches):
    x = inputs()
    rule = (0.0, int(kda.Gate.log_decay), -5.0, False, False, False, False, False)
    h0 = torch.zeros(3, 4, 64, 32)
    arguments = (*x, None, None, h0, None, *rule, torch.empty_like(x[2]))
    _ops._forward_out_cuda(*arguments, torch.zeros_like(h0))
    _ops._forward_out_cuda(*arguments, None)
    assert len(launches) == 2
    for wrong in (h0[:2], torch.zeros(3, 4, 32, 64).mT, h0[:1].expand(3, -1, -1, -1), h0.to("meta")):
        with pytest.raises(ValueError, match=r"final_state is .* it must be contiguous, \[3, 4, 64"):
            _ops._forward_out_cuda(*arguments, wrong)
    assert len(launches) == 2


def test_in_place_without_indices(launches):
    x = inputs()
    state = torch.zeros(3, 4, 64, 32)
    o, same = fused_recurrent_kda_fwd(*x, initial_state=state)
    f = launches[-1]
    assert same is state and f.initial_state == f.final_state == state.data_ptr()
    assert not launches.problem.state_pool
    with pytest.raises(ValueError, match="must be contiguous"):
        fused_recurrent_kda_fwd(*x, initial_state=torch.zeros(3, 4, 32, 64).mT)


# The bug: ssm_state_indices=None, as a caller that passes everything on has it, was taken for
# slots: the states were overwritten, and without initial_state the call was refused.
@pytest.mark.parametrize(
    "name", ["ssm_state_indices", "num_accepted_tokens", "committed_tokens",
             "inplace_final_state", "out"]
)  # fmt: skip
def test_a_keyword_that_is_none_is_not_given(launches, name):
    h0 = torch.zeros(3, 4, 64, 32)
    for state in (h0, None):
        _, new = fused_recurrent_kda(
            *inputs(), initial_state=state, output_final_state=True, **{name: None}
        )
        f = launches[-1]
        assert f.initial_state == (None if state is None else h0.data_ptr())
        assert new is not h0 and f.final_state == new.data_ptr()
        assert not launches.problem.state_pool
    assert fused_recurrent_kda(*inputs(), **{name: None})[1] is None


# The bug: the states made here followed torch's default type, which models set to their own: in
# bfloat16 they lost bits, in other types the call was refused.
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("pooled", [False, True])
def test_new_states_are_float32_whatever_the_default(launches, kind, pooled):
    x = inputs()
    slots = torch.arange(3) if pooled else None
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        _, state = fused_recurrent_kda_fwd(
            *x, inplace_final_state=False, output_final_state=True, ssm_state_indices=slots,
            out=torch.empty_like(x[2]),
        )  # fmt: skip
    finally:
        torch.set_default_dtype(before)
    assert state.dtype == torch.float32 and launches.problem.state_type is kda.DType.f32


# The bug: the operators, which compiled code calls, looked at nothing of out.
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize(
    "kind, words, out",
    [
        (ValueError, "out is torch.float16", torch.empty(3, 1, 4, 32, dtype=torch.float16)),
        (ValueError, "with strides", torch.empty(3, 1, 32, 4, dtype=torch.bfloat16).mT),
        (AssertionError, r"out is \[3, 1, 4\]", torch.empty(3, 1, 4, dtype=torch.bfloat16)),
    ],
)
def test_operators_check_out(launches, pooled, kind, words, out):
    x = (*inputs(), None, None, torch.zeros(3, 4, 64, 32), None)
    rule = (0.0, int(kda.Gate.log_decay), -5.0, False, False, False, False, False)
    slots = (torch.arange(3), None, None, None, None)

    def call(out):
        if pooled:
            _ops._paged_cuda(*x, *slots, *rule, 0, False, False, out)
        else:
            _ops._forward_out_cuda(*x, *rule, out, x[7])

    call(torch.empty_like(x[2]))
    assert len(launches) == 1
    with pytest.raises(kind, match=words):
        call(out)
    assert len(launches) == 1


def test_no_sequences_launch_nothing(launches):
    o, state = chunk_kda(*inputs(B=0), output_final_state=True)
    assert o.shape == (0, 1, 4, 32) and state.shape[0] == 0 and not launches


@pytest.mark.parametrize("T", [0, 5])
def test_no_tokens(launches, T):
    """Empty tensors have no address; the states are copied all the same."""
    cu = torch.tensor([0, 0, T])
    o, state = chunk_kda(*inputs(B=1, T=T), cu_seqlens=cu, output_final_state=True)
    assert launches[-1].tokens == T and launches[-1].sequences == 2
    assert state.shape == (2, 4, 64, 32)


def test_what_needs_a_device_to_be_refused():
    """The checks behind that of the device itself."""
    from kda.torch import _tensors

    class Cuda:
        """A tensor that says it is on a GPU."""

        type = "cuda"

    def refusal(**changed):
        x = dict(zip(("q", "k", "v", "g", "beta"), inputs()))
        x.update(A_log=None, dt_bias=None, initial_state=None, cu_seqlens=None)
        x.update(changed)

        class OnDevice:
            def __init__(self, tensor):
                self.tensor, self.device = tensor, Cuda

            def __getattr__(self, name):
                return getattr(self.tensor, name)

        t = {name: None if y is None else OnDevice(y) for name, y in x.items()}
        with pytest.raises((ValueError, NotImplementedError)) as caught:
            _tensors.check(_tensors.Tensors(**t), (3, 4, 64, 32), False)
        return f"{type(caught.value).__name__}: {caught.value}"

    half = torch.zeros(3, 1, 4, 32, dtype=torch.float16)
    assert refusal(v=half).startswith("NotImplementedError: v is torch.float16 and q is")
    assert "g is torch.float64; known" in refusal(g=torch.zeros(3, 1, 4, 64).double())
    assert "A_log has 3 elements; it needs 4" in refusal(A_log=torch.zeros(3))
    assert "dt_bias has 4 elements; it needs 256" in refusal(dt_bias=torch.zeros(4))
    assert "initial_state has the shape [3, 4, 32, 64]" in refusal(
        initial_state=torch.zeros(3, 4, 32, 64)
    )
    assert "cu_seqlens is torch.float32" in refusal(cu_seqlens=torch.zeros(2))
