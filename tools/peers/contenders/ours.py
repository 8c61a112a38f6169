"""This library, through its Python package (tools/python), which calls the C ABI of libkda.so."""

from __future__ import annotations

from contenders import Missing, Prepared, imported


class Ours:
    name = "ours"

    def __init__(self) -> None:
        self._torch = imported("torch", "PyTorch with CUDA is needed")
        self._kda = imported("kda", "compare.sh builds libkda.so and sets PYTHONPATH")
        if not self._torch.cuda.is_available():
            raise Missing("no GPU")

    def refuses(self, case) -> str:
        return ""

    def prepare(self, case, sets) -> Prepared:
        torch = self._torch
        problem = self._kda.Problem(
            heads=case.heads,
            value_heads=case.value_heads,
            max_tokens=case.tokens,
            max_sequences=case.sequences,
            key_dim=case.key_dim,
            value_dim=case.value_dim,
            qkv_type=case.dtype,
            gate_type=case.dtype,
            beta_type=case.dtype,
            gate=case.gate,
            varlen=case.varlen,
            initial_state=True,
            final_state=True,
        )
        plan = self._kda.Plan(problem)
        workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")

        def call(i: int) -> tuple:
            x = sets[i]
            o = torch.empty_like(x.v)
            state = torch.empty_like(x.initial_state)
            plan.run(
                cu_seqlens=x.cu_seqlens if case.varlen else None,
                q=x.q,
                k=x.k,
                v=x.v,
                g=x.g,
                beta=x.beta,
                A_log=x.A_log,
                dt_bias=x.dt_bias,
                initial_state=x.initial_state,
                o=o,
                final_state=state,
                workspace=workspace,
            )
            return o, state

        return Prepared(call, workspace_bytes=plan.workspace_bytes, note=plan.describe())


CONTENDERS = (Ours,)
