"""cuLA (github.com/inclusionAI/cuLA): no wheel on PyPI; runs where it has been built.

It takes beta activated, which is done beforehand and not timed.
"""

from __future__ import annotations

from contenders import Missing, Prepared, imported, only_usual


class Cula:
    name = "cula"

    def __init__(self) -> None:
        kda = imported("cula.kda", "PyPI has no wheel; build it from its repository")
        # The later entry first: two kernels, with segments; then the fused one.
        entries = ("flashkda_prefill", "kda_prefill_hopper")
        self._op = next((getattr(kda, name) for name in entries if hasattr(kda, name)), None)
        if self._op is None:
            raise Missing("cula.kda has neither " + " nor ".join(entries))
        self._torch = imported("torch", "PyTorch with CUDA is needed")
        if not self._torch.cuda.is_available():
            raise Missing("no GPU")

    def refuses(self, case) -> str:
        return "grouped value heads" if case.heads != case.value_heads else only_usual(case)

    def prepare(self, case, sets) -> Prepared:
        torch = self._torch
        beta = [torch.sigmoid(x.beta.float())[None] for x in sets]
        cu_seqlens = sets[0].cu_seqlens.int()

        def call(i: int) -> tuple:
            x = sets[i]
            with torch.no_grad():
                o, state = self._op(
                    q=x.q[None],
                    k=x.k[None],
                    v=x.v[None],
                    g=x.g[None],
                    beta=beta[i],
                    scale=x.q.shape[-1] ** -0.5,
                    A_log=x.A_log,
                    dt_bias=x.dt_bias.view(-1),
                    initial_state=x.initial_state,
                    output_final_state=True,
                    use_qk_l2norm_in_kernel=True,
                    use_gate_in_kernel=True,
                    safe_gate=True,
                    lower_bound=-5.0,
                    cu_seqlens=cu_seqlens if case.varlen else None,
                )
            return o[0], state

        return Prepared(call)


CONTENDERS = (Cula,)
