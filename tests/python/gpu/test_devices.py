"""Tensors of a device that is not torch's current one: they run where they are, by the same bits."""

import pytest

torch = pytest.importorskip("torch")

from gpu.cases import Case, inputs  # noqa: E402

import kda.torch  # noqa: E402

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")


def moved(x, device):
    if isinstance(x, dict):
        return {name: moved(y, device) for name, y in x.items()}
    return x.to(device) if isinstance(x, torch.Tensor) else x


def chunk(device):
    x = inputs(Case((70, 0, 41), packed=True, K=128, V=128, H=4, gate="bounded+bias", beta="logit",
                    l2norm=True, v_first=True, initial_state=True))  # fmt: skip
    given = moved({**x.tensors, **x.words}, device)
    return lambda: kda.torch.chunk_kda(**given)


def decode(device):
    x = inputs(Case((1,) * 6, K=128, V=128, recurrent=True, initial_state=True))
    given = moved({**x.tensors, **x.words}, device)
    return lambda: kda.torch.fused_recurrent_kda(**given)


def paged(device):
    x = inputs(Case((1, 40, 7), packed=True, K=128, V=128, gate="bounded+bias", beta="logit",
                    l2norm=True, v_first=True))  # fmt: skip
    words = {name: x.words[name] for name in ("A_log", "dt_bias", "lower_bound", "cu_seqlens")}
    maker = torch.Generator("cuda").manual_seed(1)
    start = torch.randn((9, 2, 128, 128), generator=maker, device="cuda").to(device)
    given = moved({**x.tensors, **words, "ssm_state_indices": torch.tensor([4, 0, 7])}, device)

    def call():
        pool = start.clone()
        o = kda.torch.paged_kda(
            **given, state_pool=pool, state_v_first=True, use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True,
        )  # fmt: skip
        return o, pool

    return call


def flash(device):
    x = inputs(Case((64, 64), H=2, K=128, V=128, gate="bounded+bias", beta="logit"))
    given = moved({**x.tensors, "A_log": x.words["A_log"]}, device)
    bias = x.words["dt_bias"].view(2, 128).to(device)

    def call():
        out = torch.full_like(given["v"], torch.nan)
        kda.torch.flash_kda_fwd(
            **given, scale=128**-0.5, out=out, dt_bias=bias, lower_bound=-5.0, initial_state=None,
            final_state=None,
        )  # fmt: skip
        return (out,)

    return call


def prefill(device):
    maker = torch.Generator("cuda").manual_seed(0)
    q, k, v, g = (torch.randn((2, 3, 50, 64), generator=maker, device="cuda") for _ in range(4))
    beta = torch.rand((2, 3, 50), generator=maker, device="cuda")
    given = [x.to(device) for x in (q, k, v, g, beta)]
    return lambda: torch.ops.kda_prefill.forward(*given, 32)


each = pytest.mark.parametrize("make", [chunk, decode, paged, flash, prefill])


@each
def test_calls_run_where_their_tensors_are(make):
    here, there = make("cuda:0")(), make("cuda:1")()
    assert torch.cuda.current_device() == 0
    for x, y in zip(here, there):
        assert y.device.index == 1
        assert torch.equal(x.cpu(), y.cpu())


@each
def test_graphs_of_another_device(make):
    call = make("cuda:1")
    want = [x.clone() for x in call()]
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(1)):
            made = call()
        graph.replay()
        torch.cuda.synchronize()
    assert torch.cuda.current_device() == 0
    for x, y in zip(want, made):
        assert torch.equal(x, y)
