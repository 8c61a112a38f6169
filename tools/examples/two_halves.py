"""Prefills a prompt from PyTorch in two halves and shows that they agree with one run.

    python3 tools/examples/two_halves.py

Without a GPU it compiles the same plan for an H200 instead and says so.
"""

import sys

import kda

H, HV, D, T = 4, 8, 128, 1000


def without_a_gpu(why):
    plan = kda.Plan(
        kda.Problem(heads=H, value_heads=HV, max_tokens=T, initial_state=True, final_state=True),
        kda.Options(target="h200"),
    )
    print(plan.describe())
    print(f"two_halves: compiled for an H200 and not run: {why}")


def main():
    try:
        import torch
    except ImportError:
        return without_a_gpu("torch is not installed")
    if not torch.cuda.is_available():
        return without_a_gpu("no GPU")
    from kda.torch import chunk_kda

    torch.manual_seed(0)
    shapes = {"q": (H, D), "k": (H, D), "v": (HV, D), "g": (HV, D), "beta": (HV,)}
    x = {name: torch.randn(1, T, *s, device="cuda").bfloat16() for name, s in shapes.items()}
    words = {
        "A_log": torch.zeros(HV, device="cuda"),
        "lower_bound": -5.0,
        "use_gate_in_kernel": True,
        "use_beta_sigmoid_in_kernel": True,
        "use_qk_l2norm_in_kernel": True,
        "output_final_state": True,
    }
    with torch.inference_mode():
        whole, end = chunk_kda(**x, **words)
        first, middle = chunk_kda(**{name: y[:, :300] for name, y in x.items()}, **words)
        second, last = chunk_kda(
            **{name: y[:, 300:] for name, y in x.items()}, initial_state=middle, **words
        )
    halves = torch.cat([first, second], 1)
    for name, a, b in (("o", whole, halves), ("state", end, last)):
        difference = ((a.float() - b.float()).norm() / a.float().norm()).item()
        print(f"two_halves: {name} differs by {difference:.1e}, relative")
        if not difference < 0.01:
            sys.exit(f"two_halves: {name} of the halves is not {name} of the whole")


if __name__ == "__main__":
    main()
