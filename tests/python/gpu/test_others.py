"""FlashKDA's call, the first kda_prefill's operator, Plan.run with other frameworks' tensors."""

import ctypes
import threading

import pytest

torch = pytest.importorskip("torch")

from gpu.cases import Case, expected, inputs  # noqa: E402
from naive import error_ratio, recurrence  # noqa: E402

import kda  # noqa: E402
import kda.torch  # noqa: E402
from kda import _streams  # noqa: E402


@pytest.mark.parametrize("state", [None, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [(97,), (256, 256), (17, 33, 65), (1300, 547, 963)])
def test_flash_kda_fwd(lengths, state):
    packed = len(set(lengths)) > 1
    case = Case(lengths, packed=packed, H=4, K=128, V=128, gate="bounded+bias", beta="logit",
                l2norm=True, v_first=True, initial_state=state is not None)  # fmt: skip
    x = inputs(case)
    words = x.words
    words["dt_bias"] = words["dt_bias"].view(4, 128)
    out = torch.full_like(x.tensors["v"], torch.nan)
    initial = final = None
    if state is not None:
        initial = words["initial_state"] = words["initial_state"].to(state)
        final = torch.full_like(initial, torch.nan)
    said = kda.torch.flash_kda_fwd(
        **x.tensors, scale=128**-0.5, out=out, A_log=words["A_log"], dt_bias=words["dt_bias"],
        lower_bound=-5.0, initial_state=initial, final_state=final,
        cu_seqlens=words.get("cu_seqlens"),
    )  # fmt: skip
    assert said is None
    want, want_state = expected(case, x)
    assert error_ratio(want, out) < 0.006  # FLA's for its FlashKDA backend
    if final is not None:
        assert error_ratio(want_state, final) < 0.006


def test_flash_kda_fwd_in_place_and_compiled():
    case = Case((64, 64), H=2, K=128, V=128, gate="bounded+bias", beta="logit", v_first=True,
                initial_state=True)  # fmt: skip
    x = inputs(case)
    words = (128**-0.5, x.words["A_log"], x.words["dt_bias"].view(2, 128), -5.0)
    state = x.words["initial_state"]

    def layer(out, initial, final):
        kda.torch.flash_kda_fwd(
            *x.tensors.values(), words[0], out, *words[1:], initial_state=initial,
            final_state=final,
        )  # fmt: skip
        return out + 0

    want_state = torch.empty_like(state)
    want = layer(torch.empty_like(x.tensors["v"]), state, want_state)
    same = state.clone()
    assert torch.equal(layer(torch.empty_like(want), same, same), want)
    assert torch.equal(same, want_state)
    compiled = torch.compile(layer, fullgraph=True)
    final = torch.empty_like(state)
    assert torch.equal(compiled(torch.empty_like(want), state, final), want)
    assert torch.equal(final, want_state)


def wy_of(k, v, log_decay, beta, C):
    """w and u of [T, heads, channels] tensors, chunk by chunk in f64."""
    k, v, g, beta = (x.double().transpose(0, 1) for x in (k, v, log_decay, beta[..., None]))
    H, T, K = k.shape
    w, u = [], []
    for a in range(0, T, C):
        kc, vc, bc = k[:, a : a + C], v[:, a : a + C], beta[:, a : a + C]
        D = g[:, a : a + C].cumsum(1)
        apart = (D[:, :, None] - D[:, None]).clamp(max=0).exp()
        L = ((kc[:, :, None] * kc[:, None] * apart).sum(-1) * bc).tril(-1)
        M = torch.linalg.inv(torch.eye(L.shape[-1], device=L.device, dtype=L.dtype) + L)
        rows = (0, 0, 0, C - kc.shape[1])
        w.append(torch.nn.functional.pad(M @ (bc * D.exp() * kc), rows))
        u.append(torch.nn.functional.pad(M @ (bc * vc), rows))
    return torch.stack(w, 1), torch.stack(u, 1)


@pytest.mark.parametrize("T, K, V, C", [(40, 64, 64, 32), (64, 64, 128, 64), (130, 128, 64, 32)])
def test_kda_prefill(T, K, V, C):
    B, H = 2, 3
    maker = torch.Generator("cuda").manual_seed(0)
    new = lambda *shape: torch.randn(shape, generator=maker, device="cuda")  # noqa: E731
    q, k, g = new(B, H, T, K), new(B, H, T, K), new(B, H, T, K)
    v, beta = new(B, H, T, V), new(B, H, T).sigmoid()
    o, w, u = torch.ops.kda_prefill.forward(q, k, v, g, beta, C)
    turned = [x.transpose(1, 2) for x in (q, k, v, g, beta)]
    unit = [torch.nn.functional.normalize(x, dim=-1) for x in turned[:2]]
    log_decay = torch.nn.functional.logsigmoid(turned[3])
    want, _ = recurrence(*unit, turned[2], log_decay, turned[4])
    assert error_ratio(want.transpose(1, 2), o) < 5e-5
    for n in range(B):
        want_w, want_u = wy_of(unit[1][n], turned[2][n], log_decay[n], turned[4][n], C)
        assert error_ratio(want_w, w[n]) < 5e-5 and error_ratio(want_u, u[n]) < 5e-5
    again = [torch.full_like(x, torch.nan) for x in (w, u, o)]
    same = torch.ops.kda_prefill.forward(q, k, v, g, beta, C, *again)
    assert [x.data_ptr() for x in same] == [again[i].data_ptr() for i in (2, 0, 1)]
    assert torch.equal(same[0], o) and torch.equal(same[1], w) and torch.equal(same[2], u)
    tail = T % C
    if tail:
        assert not w[:, :, -1, tail:].any() and not u[:, :, -1, tail:].any()


def plan_and_tensors(**more):
    problem = kda.Problem(heads=2, max_tokens=64, final_state=True, qkv_type="f16",
                          gate_type="f16", beta_type="f16", gate="log_decay", beta_is_logit=False,
                          state_layout="key_first", l2norm_qk=False, **more)  # fmt: skip
    x = inputs(Case((64,), K=128, V=128, dtype="f16"))
    return kda.Plan(problem), x.tensors


def test_plan_run_takes_torch_tensors():
    plan, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    for _ in range(3):  # the first checks, the next ones remember
        o, state = torch.empty_like(want), torch.empty_like(want_state)
        plan.run(**x, o=o, final_state=state)
        assert torch.equal(o, want) and torch.equal(state, want_state)
    with pytest.raises(ValueError, match="v has the shape"):
        plan.run(**{**x, "v": x["v"][..., :64]}, o=o, final_state=state)
    with pytest.raises(ValueError, match="v is on cpu"):
        plan.run(**{**x, "v": x["v"].cpu()}, o=o, final_state=state)


# The bug: the workspace was of torch's current stream whichever the run was on.
def test_plan_run_allocates_on_the_stream_of_the_run():
    plan, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    o, state = torch.empty_like(want), torch.empty_like(want_state)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    plan.run(**x, o=o, final_state=state, stream=stream)
    stream.synchronize()
    assert torch.equal(o, want) and torch.equal(state, want_state)
    if plan.workspace_bytes:
        streams = {segment["stream"] for segment in torch.cuda.memory_snapshot()}
        assert stream.cuda_stream in streams
    o.zero_()
    with torch.cuda.stream(stream):  # then the default stream is not the current one
        plan.run(**x, o=o, final_state=state, stream=torch.cuda.default_stream())
    torch.cuda.synchronize()
    assert torch.equal(o, want)


def in_a_new_thread(call):
    """A plain one, in which no CUDA context is current."""
    failed = []

    def work():
        current = ctypes.c_void_p(1)
        _streams._driver().cuCtxGetCurrent(ctypes.byref(current))
        try:
            assert current.value is None
            with torch.inference_mode():
                call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    if failed:
        raise failed[0]


# The bug: a run whose memory was all there already had no context in a new thread, and raised.
def test_plan_run_in_a_new_thread():
    plan, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    o, state = torch.zeros_like(want), torch.zeros_like(want_state)
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    in_a_new_thread(lambda: plan.run(**x, o=o, final_state=state, workspace=workspace))
    assert torch.equal(o, want) and torch.equal(state, want_state)


# The same bug.
@pytest.mark.parametrize("made_before", [True, False])
def test_kda_prefill_in_a_new_thread(made_before):
    K = 64 if made_before else 80  # of which no other test has made the plan
    q, k, v, g = (torch.randn(1, 2, 40, K, device="cuda") for _ in range(4))
    beta = torch.rand(1, 2, 40, device="cuda")
    run = lambda *outs: torch.ops.kda_prefill.forward(q, k, v, g, beta, 32, *outs)  # noqa: E731
    wy = torch.zeros(1, 2, 2, 32, K, device="cuda")
    outs = [wy, wy.clone(), torch.zeros_like(v)]
    if made_before:
        run()
    torch.cuda.synchronize()
    in_a_new_thread(lambda: run(*outs))
    o, w, u = run()
    assert torch.equal(outs[0], w) and torch.equal(outs[1], u) and torch.equal(outs[2], o)


# The bug: the kernels were launched on the current device's stream 0.
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_plan_run_on_a_device_that_is_not_current():
    here, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    there = kda.Plan(here.problem, kda.Options(device=1))
    x = {name: y.to("cuda:1") for name, y in x.items()}
    o, state = (torch.empty_like(y, device="cuda:1") for y in (want, want_state))
    there.run(**x, o=o, final_state=state)
    assert torch.cuda.current_device() == 0
    assert torch.equal(o.cpu(), want.cpu()) and torch.equal(state.cpu(), want_state.cpu())


class Shown:
    """A torch tensor as other frameworks show theirs, ready on a stream that it names."""

    def __init__(self, tensor, stream=None):
        typestr = {torch.float16: "<f2", torch.float32: "<f4", torch.uint8: "|u1"}[tensor.dtype]
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "typestr": typestr,
            "data": (tensor.data_ptr(), False),
            "strides": tuple(stride * tensor.element_size() for stride in tensor.stride()),
            "stream": stream,
            "version": 3,
        }


# The bug: the stream that a __cuda_array_interface__ names was not looked at, so the run raced with
# what made the array.
@pytest.mark.parametrize("where", ["the named one", "the default one", "another"])
def test_plan_run_goes_after_the_streams_of_arrays(where):
    plan, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    source, other = torch.cuda.Stream(), torch.cuda.Stream()
    stream = {"the named one": None, "the default one": 0, "another": other}[where]
    for late in ("v", "beta", "both"):
        o, state = torch.zeros_like(want), torch.zeros_like(want_state)
        names = ("v", "beta") if late == "both" else (late,)
        made = {name: torch.zeros_like(x[name]) for name in names}
        torch.cuda.synchronize()
        with torch.cuda.stream(source):
            torch.cuda._sleep(100_000_000)
            for name in names:
                made[name].copy_(x[name])
        shown = {name: Shown(y) for name, y in x.items()}
        shown.update((name, Shown(y, source.cuda_stream)) for name, y in made.items())
        plan.run(**shown, o=Shown(o), final_state=Shown(state), workspace=Shown(workspace),
                 stream=stream)  # fmt: skip
        torch.cuda.synchronize()
        assert torch.equal(o, want) and torch.equal(state, want_state)


def test_plan_run_waits_for_no_stream_outside_of_its_capture():
    plan, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    o, state = torch.zeros_like(want), torch.zeros_like(want_state)
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    plan.run(**x, o=o, final_state=state, workspace=workspace)
    outside = torch.cuda.Stream()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = torch.cuda.current_stream()
        for named in (outside.cuda_stream, 1):
            late = {**x, "v": Shown(x["v"], named)}
            with pytest.raises(ValueError, match="v is ready on .* a CUDA graph is captured"):
                plan.run(**late, o=o, final_state=state, workspace=workspace)
        same = {**x, "v": Shown(x["v"], inside.cuda_stream)}
        plan.run(**same, o=o, final_state=state, workspace=workspace)  # the capture goes on
    o.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(o, want) and torch.equal(state, want_state)


def test_plan_run_takes_cupys_arrays():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    plan, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    theirs = {name: cupy.from_dlpack(y) for name, y in x.items()}
    o = cupy.empty(want.shape, cupy.float16)
    state = cupy.empty(want_state.shape, cupy.float32)
    workspace = cupy.empty(plan.workspace_bytes, cupy.uint8)
    torch.cuda.synchronize()
    plan.run(**theirs, o=o, final_state=state, workspace=workspace, stream=cupy.cuda.Stream.null)
    cupy.cuda.Stream.null.synchronize()
    assert torch.equal(torch.from_dlpack(o), want)
    assert torch.equal(torch.from_dlpack(state), want_state)


def test_plan_run_takes_jaxs_arrays():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with torch.cuda.device(torch.cuda.current_device()):  # of several, JAX leaves the last current
        sees_a_gpu = any(d.platform == "gpu" for d in jax.devices())
    if not sees_a_gpu:
        pytest.skip("JAX sees no GPU")
    plan, x = plan_and_tensors()
    want, want_state = kda.torch.chunk_kda(**x, output_final_state=True)
    theirs = {name: jax.dlpack.from_dlpack(y.contiguous()) for name, y in x.items()}
    o, state = torch.empty_like(want), torch.empty_like(want_state)
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    plan.run(**theirs, o=o, final_state=state, workspace=workspace)
    torch.cuda.synchronize()
    assert torch.equal(o, want) and torch.equal(state, want_state)


def test_patched_fla_layer():
    pytest.importorskip("fla.layers.kda", reason="flash-linear-attention is not installed")
    from fla.layers.kda import KimiDeltaAttention

    torch.manual_seed(0)
    model = KimiDeltaAttention(hidden_size=256, head_dim=64, num_heads=4).cuda().bfloat16().eval()
    x = torch.randn(2, 200, 256, device="cuda", dtype=torch.bfloat16)
    # Short inputs run FLA's recurrent kernel; its chunked ones would tune themselves for minutes.
    want = model(x[:, :40])[0]
    with kda.torch.patch_fla(model, fallback=False) as patch:
        assert len(patch.replaced) == 2
        o = model(x)[0]
        short = model(x[:, :40])[0]
    assert error_ratio(want, o[:, :40]) < 0.02
    assert error_ratio(want, short) < 0.02
