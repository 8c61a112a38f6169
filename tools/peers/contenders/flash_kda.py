"""FlashKDA (github.com/MoonshotAI/FlashKDA): no wheel on PyPI; runs where it has been built."""

from __future__ import annotations

from contenders import Missing, Prepared, imported, only_usual


class FlashKda:
    name = "flash_kda"

    def __init__(self) -> None:
        self._module = imported("flash_kda", "PyPI has no wheel; build it from its repository")
        self._torch = imported("torch", "PyTorch with CUDA is needed")
        if not self._torch.cuda.is_available():
            raise Missing("no GPU")

    def refuses(self, case) -> str:
        return "grouped value heads" if case.heads != case.value_heads else only_usual(case)

    def prepare(self, case, sets) -> Prepared:
        torch = self._torch

        def call(i: int) -> tuple:
            x = sets[i]
            o = torch.empty_like(x.v)
            state = torch.empty_like(x.initial_state)
            self._module.fwd(
                x.q[None],
                x.k[None],
                x.v[None],
                x.g[None],
                x.beta[None],
                x.q.shape[-1] ** -0.5,
                o[None],
                A_log=x.A_log,
                dt_bias=x.dt_bias,
                lower_bound=-5.0,
                initial_state=x.initial_state,
                final_state=state,
                cu_seqlens=x.cu_seqlens if case.varlen else None,
            )
            return o, state

        return Prepared(call)


CONTENDERS = (FlashKda,)
