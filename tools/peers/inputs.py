"""One case's tensors on the GPU: inputs ~ N(0, 1), A_log and dt_bias ~ U(0, 1)."""

from __future__ import annotations

import dataclasses

import torch

from cases import Case

LOWER_BOUND = -5.0
_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
_COLD_BYTES = 256 << 20  # sets together are several times the L2, so that no call finds its inputs
_MOST_SETS = 32


@dataclasses.dataclass
class Inputs:
    """q, k [T, H, K], v [T, HV, V], g [T, HV, K], beta [T, HV], of the case's type; the rest f32."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor  # raw, for the gate
    beta: torch.Tensor  # logits
    A_log: torch.Tensor  # [HV]
    dt_bias: torch.Tensor  # [HV, K]; shared by all sets: the regime writes it
    initial_state: torch.Tensor  # [N, HV, V, K]
    cu_seqlens: torch.Tensor  # int64 [N + 1]; shared by all sets

    @property
    def output_bytes(self) -> int:
        """o and the final state."""
        return self.v.nbytes + self.initial_state.nbytes


def bytes_a_set(case: Case) -> int:
    K, V = case.key_dim, case.value_dim
    row = 2 * case.heads * K + case.value_heads * (K + 2 * V + 1)
    states = 8 * case.sequences * case.value_heads * K * V
    return _TYPES[case.dtype].itemsize * case.tokens * row + states


def sets_for(case: Case) -> int:
    return max(1, min(_MOST_SETS, -(-_COLD_BYTES // bytes_a_set(case))))


def make(case: Case, seed: int = 1) -> list[Inputs]:
    draw = torch.Generator("cuda").manual_seed(seed)

    def normal(*shape: int, dtype: torch.dtype = _TYPES[case.dtype]) -> torch.Tensor:
        return torch.randn(*shape, dtype=dtype, device="cuda", generator=draw)

    T, H, HV = case.tokens, case.heads, case.value_heads
    K, V = case.key_dim, case.value_dim
    A_log = torch.rand(HV, device="cuda", generator=draw)
    dt_bias = torch.empty(HV, K, device="cuda")
    cu_seqlens = torch.tensor(case.cu_seqlens, dtype=torch.int64, device="cuda")
    return [
        Inputs(
            q=normal(T, H, K),
            k=normal(T, H, K),
            v=normal(T, HV, V),
            g=normal(T, HV, K),
            beta=normal(T, HV),
            A_log=A_log,
            dt_bias=dt_bias,
            initial_state=normal(case.sequences, HV, V, K, dtype=torch.float32),
            cu_seqlens=cu_seqlens,
        )
        for _ in range(sets_for(case))
    ]


def set_regime(inputs: list[Inputs], regime: str, seed: int = 2) -> None:
    """Writes dt_bias: strong U(0, 1), weak -8, mixed -8 on odd channels."""
    dt_bias = inputs[0].dt_bias
    draw = torch.Generator("cuda").manual_seed(seed)
    dt_bias.copy_(torch.rand(dt_bias.shape, device="cuda", generator=draw))
    if regime == "weak":
        dt_bias.fill_(-8.0)
    elif regime == "mixed":
        dt_bias[:, 1::2] = -8.0
