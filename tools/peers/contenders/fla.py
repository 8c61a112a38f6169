"""Flash Linear Attention, Triton: fla.ops.kda.chunk_kda (wheel fla-core)."""

from __future__ import annotations

import os

from contenders import Missing, Prepared, imported


class Fla:
    name = "fla"

    def __init__(self) -> None:
        torch = imported("torch", "PyTorch with CUDA is needed")
        if not torch.cuda.is_available():
            raise Missing("no GPU")
        os.environ["FLA_FLASH_KDA"] = "0"  # else FLA hands the call to FlashKDA where it finds one
        self._torch = torch
        self._ops = imported("fla.ops.kda", "tools/peers/wheels.sh fetches fla-core")

    def refuses(self, case) -> str:
        return ""

    def _arguments(self, case, x) -> dict:
        bound = dict(lower_bound=-5.0) if case.gate == "bounded" else {}
        return dict(
            **bound,
            q=x.q[None],
            k=x.k[None],
            v=x.v[None],
            g=x.g[None],
            beta=x.beta[None],
            A_log=x.A_log,
            dt_bias=x.dt_bias.view(-1),
            scale=x.q.shape[-1] ** -0.5,
            initial_state=x.initial_state,
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            state_v_first=True,
            cu_seqlens=x.cu_seqlens if case.varlen else None,
        )

    def _run(self, op, **arguments) -> tuple:
        with self._torch.no_grad():
            o, state = op(**arguments)
        return o[0], state

    def prepare(self, case, sets) -> Prepared:
        arguments = [self._arguments(case, x) for x in sets]
        safe = case.gate == "bounded"  # only then is the gate's range known
        return Prepared(lambda i: self._run(self._ops.chunk_kda, safe_gate=safe, **arguments[i]))

    def recurrence(self, case, x) -> tuple:
        """Token by token in f32: what errors are measured against."""
        return self._run(self._ops.fused_recurrent_kda, **self._arguments(case, x))


CONTENDERS = (Fla,)
