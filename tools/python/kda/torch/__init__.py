"""KDA for PyTorch under the names that programs call today.

* :func:`chunk_kda` and :func:`fused_recurrent_kda`: flash-linear-attention's, forward only.
* :func:`fused_recurrent_kda_fwd` and :func:`paged_kda`: states in slots of a pool, for engines.
* :func:`flash_kda_fwd`: FlashKDA's ``fwd``.
* ``torch.ops.kda_prefill.forward``: the first CUDA kda_prefill.
* :func:`patch_fla`: swaps the first two inside a loaded model.

All run on torch's current stream and may be captured in a CUDA graph, first calls too, or compiled
with ``torch.compile(fullgraph=True)``.  Memory comes from torch's allocator; the workspace of
``kda_prefill.forward`` alone comes from a pool of the library's own.
"""

from __future__ import annotations

from kda.torch import prefill as _prefill  # noqa: F401  registers torch.ops.kda_prefill
from kda.torch.fla import chunk_kda, fused_recurrent_kda
from kda.torch.flash import flash_kda_fwd
from kda.torch.paged import fused_recurrent_kda_fwd, paged_kda
from kda.torch.patch import Patch, patch_fla

__all__ = [
    "Patch",
    "chunk_kda",
    "flash_kda_fwd",
    "fused_recurrent_kda",
    "fused_recurrent_kda_fwd",
    "paged_kda",
    "patch_fla",
]
