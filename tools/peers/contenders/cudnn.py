"""cuDNN Frontend's Hopper KDA engines (wheel nvidia-cudnn-frontend).

kda_hopper_cuda is one fused kernel that NVRTC compiles.  It takes g and beta in f32 and converts
other types with kernels of their own at every call, so it runs twice: on the inputs as they are,
and, as `_f32`, on f32 copies made beforehand.  It splits a sequence in segments and drops the state
from before a segment where its decay is under 2^-20.

kda_hopper is written in CuTe DSL and takes q and k normalised, log decays and beta activated; all
of it is done beforehand and not timed.
"""

from __future__ import annotations

from contenders import Missing, Prepared, imported, only_usual


class _Engine:
    name = ""
    plan = ""
    f32 = False  # g and beta given in f32
    replayable = False  # in a graph's replay kda_hopper_cuda has ended the process, or done nothing

    def __init__(self) -> None:
        torch = imported("torch", "PyTorch with CUDA is needed")
        if not torch.cuda.is_available():
            raise Missing("no GPU")
        if torch.cuda.get_device_capability() != (9, 0):
            raise Missing("these engines are for capability 9.0")
        self._torch = torch
        attention = imported(
            "cudnn.linear_attention", "tools/peers/wheels.sh fetches nvidia-cudnn-frontend"
        )
        self._op = attention.kimi_delta_attention

    def refuses(self, case) -> str:
        return only_usual(case)

    def _arguments(self, x) -> dict:
        return dict(
            q=x.q,
            k=x.k,
            v=x.v,
            g=x.g.float() if self.f32 else x.g,
            beta=x.beta.float() if self.f32 else x.beta,
            use_qk_l2norm_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            safe_gate=True,
            gate_lower_bound=-5.0,
            a_log=x.A_log,
            dt_bias=x.dt_bias,
        )

    def prepare(self, case, sets) -> Prepared:
        cu_seqlens = sets[0].cu_seqlens.int()
        arguments = [self._arguments(x) for x in sets]

        def call(i: int) -> tuple:
            with self._torch.no_grad():
                return self._op(
                    **arguments[i],
                    cu_seqlens=cu_seqlens,
                    scale=sets[i].q.shape[-1] ** -0.5,
                    initial_state=sets[i].initial_state,
                    output_final_state=True,
                    plan_name=self.plan,
                )[:2]

        return Prepared(call)


class Cuda(_Engine):
    name = "cudnn_cuda"
    plan = "kda_hopper_cuda"


class CudaF32(Cuda):
    name = "cudnn_cuda_f32"
    f32 = True


class CuteDsl(_Engine):
    name = "cudnn_cutedsl"
    plan = "kda_hopper"
    regime_in_inputs = True  # the gate is applied beforehand, so a regime needs inputs of its own

    def __init__(self) -> None:
        super().__init__()
        imported("cutlass", "nvidia-cutlass-dsl 4.8.1, whose libs wheel is 92 MB")

    def refuses(self, case) -> str:
        return "grouped value heads" if case.heads != case.value_heads else only_usual(case)

    def _arguments(self, x) -> dict:
        torch = self._torch

        def unit(rows):
            rows = rows.float()
            return (rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + 1e-6)).bfloat16()

        decay = torch.exp(x.A_log)[:, None] * (x.g.float() + x.dt_bias)
        return dict(
            q=unit(x.q),
            k=unit(x.k),
            v=x.v,
            g=-5.0 * torch.sigmoid(decay),
            beta=torch.sigmoid(x.beta.float()),
        )


CONTENDERS = (Cuda, CudaF32, CuteDsl)
