"""KDA token by token in float32, and how FLA measures an error: what the torch tests compare with."""

from __future__ import annotations

import torch


def gated(g, A_log, dt_bias, lower_bound):
    """The log decay that FLA's gates make of g, in float32."""
    x = g.float()
    if dt_bias is not None:
        x = x + dt_bias.float().view(*g.shape[-2:])
    rate = 1.0 if A_log is None else A_log.float().exp().view(-1, 1)
    if lower_bound is None:
        return -rate * torch.nn.functional.softplus(x)
    return lower_bound * torch.sigmoid(rate * x)


def recurrence(q, k, v, g, beta, scale=None, state=None):
    """g and beta as used; q, k normalised where they should be.  Returns o and the state [N,HV,K,V].

    The formula of fla.ops.kda.naive.naive_recurrent_kda, which the GPU tests call where it is
    installed.
    """
    groups = v.shape[2] // q.shape[2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    q, k, v, g, beta = (x.float() for x in (q, k, v, g, beta))
    q = q.repeat_interleave(groups, 2) * scale
    k = k.repeat_interleave(groups, 2)
    B, T, HV, K = k.shape
    S = k.new_zeros(B, HV, K, v.shape[-1]) if state is None else state.float().clone()
    o = torch.empty_like(v)
    for t in range(T):
        S = S * g[:, t].exp().unsqueeze(-1)
        error = v[:, t] - (k[:, t].unsqueeze(-1) * S).sum(-2)
        S = S + (beta[:, t].unsqueeze(-1) * k[:, t]).unsqueeze(-1) * error.unsqueeze(-2)
        o[:, t] = (q[:, t].unsqueeze(-1) * S).sum(-2)
    return o, S


def error_ratio(expected, found):
    """FLA's: RMS of the difference over RMS of what is expected; NaN is no agreement."""
    difference = (expected.float() - found.float()).flatten()
    if difference.numel() == 0 or difference.abs().max() <= 1e-6:
        return 0.0
    ratio = difference.square().mean().sqrt() / (expected.float().square().mean().sqrt() + 1e-8)
    return float("inf") if ratio.isnan() else float(ratio)
