"""The first kda_prefill's published sizes: ours by its C interface beside FLA on the same numbers.

tools/peers/compare.sh original                 builds, finds the wheels, runs this: both suites
tools/peers/compare.sh original --suite local   ours alone; --suite peer: FLA alone

B, H, T with K = V = 64 and C = 32, in f32: q and k normalised inside, the decay sigmoid(g), no
states.  Ours is a call of kda_prefill_f32 with w and u, its workspace included, and one without
them; FLA's is chunk_kda on g = logsigmoid(g), made beforehand.  Errors are against the token
recurrence in f64, over all elements.  Writes original_fla.json and .md into --out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import sys
import time
from typing import Callable, Optional

import fla_choices
import provenance
from contenders import Missing, imported, torch_with_gpu

SIZES = ((2, 8, 4096), (2, 8, 8192), (4, 8, 4096), (2, 16, 4096), (2, 8, 16384))
K = V = 64
C = 32
_COLD_BYTES = 256 << 20  # sets of inputs together are several times the L2


class Io(ctypes.Structure):
    """KdaPrefillIO of include/kda/prefill.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("q", "k", "v", "g", "beta", "w", "u", "o")] + [
        (name, ctypes.c_int)
        for name in (
            "batch_size", "num_heads", "seq_len", "head_dim", "value_dim", "chunk_size",
            "num_chunks",
        )
    ]  # fmt: skip


class Ours:
    """kda_prefill_f32 of the libkda.so that KDA_LIBRARY names."""

    def __init__(self, torch, name: str, wants_wy: bool):
        self.name = name
        self._torch = torch
        self._wants_wy = wants_wy
        path = os.environ.get("KDA_LIBRARY", "libkda.so")
        try:
            self._library = ctypes.CDLL(path)
            self._library.kda_prefill_f32.argtypes = [ctypes.POINTER(Io), ctypes.c_void_p]
        except (OSError, AttributeError) as error:
            raise Missing(f"{path}: {error}; compare.sh builds it and sets KDA_LIBRARY") from error
        self._library.kda_last_message.restype = ctypes.c_char_p

    def prepare(self, size: tuple[int, int, int], sets: list[dict]) -> Callable[[int], object]:
        torch = self._torch
        B, H, T = size
        chunks = -(-T // C)
        calls = []
        for x in sets:
            o = torch.full_like(x["v"], float("nan"))
            w = torch.empty(B, H, chunks, C, K, device="cuda") if self._wants_wy else None
            u = torch.empty(B, H, chunks, C, V, device="cuda") if self._wants_wy else None
            pointers = [x[name].data_ptr() for name in ("q", "k", "v", "g", "beta")]
            pointers += [None if out is None else out.data_ptr() for out in (w, u, o)]
            calls.append((Io(*pointers, B, H, T, K, V, C, 0), o, w, u))

        def call(i: int):
            io, o = calls[i][:2]
            stream = torch.cuda.current_stream().cuda_stream
            error = self._library.kda_prefill_f32(ctypes.byref(io), stream)
            if error:
                said = self._library.kda_last_message().decode()
                raise RuntimeError(f"kda_prefill_f32: {error}: {said}")
            return o

        return call


class Fla:
    """fla.ops.kda.chunk_kda, on [B, T, H, *]."""

    name = "fla"

    def __init__(self, torch):
        os.environ["FLA_FLASH_KDA"] = "0"
        self._torch = torch
        self._ops = imported("fla.ops.kda", "tools/peers/wheels.sh fetches fla-core")

    def prepare(self, size: tuple[int, int, int], sets: list[dict]) -> Callable[[int], object]:
        torch = self._torch
        inputs = []
        for x in sets:
            y = {name: x[name].transpose(1, 2).contiguous() for name in ("q", "k", "v", "g")}
            y["g"] = torch.nn.functional.logsigmoid(y["g"])
            y["beta"] = x["beta"].transpose(1, 2).contiguous()
            inputs.append(y)

        def call(i: int):
            with torch.no_grad():
                o, _ = self._ops.chunk_kda(
                    **inputs[i], scale=K**-0.5, use_qk_l2norm_in_kernel=True
                )
            return o.transpose(1, 2)

        return call


def make(torch, size: tuple[int, int, int]) -> list[dict]:
    """Sets of inputs, [B, H, T, *]."""
    B, H, T = size
    bytes_a_set = 4 * B * H * T * (4 * K + V + 1)
    draw = torch.Generator("cuda").manual_seed(1)

    def normal(*shape: int):
        return torch.randn(*shape, device="cuda", generator=draw)

    return [
        {
            "q": normal(B, H, T, K),
            "k": normal(B, H, T, K),
            "v": normal(B, H, T, V),
            "g": normal(B, H, T, K) + 2,  # decays around 0.88
            "beta": normal(B, H, T).sigmoid(),
        }
        for _ in range(max(1, -(-_COLD_BYTES // bytes_a_set)))
    ]


def recurrence(torch, x: dict):
    """Spec 1.2 token by token in f64; o [B, H, T, V]."""
    q, k, v, g, beta = (x[name].double() for name in ("q", "k", "v", "g", "beta"))
    q = q * torch.rsqrt((q * q).sum(-1, keepdim=True) + 1e-6) * K**-0.5
    k = k * torch.rsqrt((k * k).sum(-1, keepdim=True) + 1e-6)
    decay = g.sigmoid().unsqueeze(-1)
    S = torch.zeros(*q.shape[:2], K, V, dtype=torch.float64, device=q.device)
    o = torch.empty_like(v)
    for t in range(q.shape[2]):
        S = decay[:, :, t] * S
        kt = k[:, :, t].unsqueeze(-1)
        error = beta[:, :, t, None] * (v[:, :, t] - (S * kt).sum(2))
        S = S + kt * error.unsqueeze(2)
        o[:, :, t] = (S * q[:, :, t].unsqueeze(-1)).sum(2)
    return o


def errors(found, truth) -> dict:
    apart = found.double() - truth
    return {
        "max_abs": float(apart.abs().max()),
        "o_rel_l2": float(apart.norm() / truth.norm()),
    }


def contenders_of(torch, suite: str) -> tuple[list, dict[str, str]]:
    makers: dict[str, Callable] = {}
    if suite != "peer":
        makers["ours"] = lambda: Ours(torch, "ours", True)
        makers["ours, o alone"] = lambda: Ours(torch, "ours, o alone", False)
    if suite != "local":
        makers["fla"] = lambda: Fla(torch)
    found, missing = [], {}
    for name, maker in makers.items():
        try:
            found.append(maker())
        except Missing as reason:
            missing[name] = str(reason)
    return found, missing


def row_of(torch, size: tuple[int, int, int], contenders: list) -> dict:
    import race

    sets = make(torch, size)
    truth = recurrence(torch, sets[0])
    graphs, outputs = {}, {}
    row: dict = {"B": size[0], "H": size[1], "T": size[2], "sets": len(sets), "contenders": {}}
    for contender in contenders:
        its = row["contenders"].setdefault(contender.name, {})
        try:
            call = contender.prepare(size, sets)
            outputs[contender.name] = call(0).clone()
            its.update(errors(outputs[contender.name], truth))
            graphs[contender.name] = race.Graph(call, len(sets))
        except Exception as error:  # one contender's failure costs only its own numbers
            its["skipped"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    for name, times in race.race(graphs).items():
        row["contenders"][name].update(times)
    if "ours" in outputs and "fla" in outputs:
        row["ours_to_fla"] = errors(outputs["ours"], outputs["fla"].double())
    return row


def text_of(row: dict) -> list[str]:
    lines = []
    for name, its in row["contenders"].items():
        said = its.get("skipped")
        if said is None:
            said = (
                f"{its['us']:9.1f} us, o to f64: rel-L2 {its['o_rel_l2']:.1e}, "
                f"largest {its['max_abs']:.1e}"
            )
        lines.append(f"B={row['B']} H={row['H']} T={row['T']:<6d} {name:14s} {said}")
    if "ours_to_fla" in row:
        apart = row["ours_to_fla"]
        lines.append(
            f"    accuracy: ours to FLA: rel-L2 {apart['o_rel_l2']:.1e}, "
            f"largest {apart['max_abs']:.1e}"
        )
    return lines


def table_of(document: dict) -> str:
    names = ("ours", "ours, o alone", "fla")

    def cells(its: dict) -> str:
        return f"{its['us']:.1f} | {its['o_rel_l2']:.1e}" if "us" in its else "- | -"

    lines = [
        "# kda_prefill_f32 beside FLA",
        "",
        f"K = V = {K}, C = {C}, f32 (FLA's products are of tf32); GPU time of a call in a CUDA graph, "
        f"rel-L2 of o against {document['truth']}. {document['machine']}, {document['date']}, commit "
        f"{document['commit']}, `{document['command']}`.",
        "",
        "| B | H | T | ours with w and u: us | error | ours, o alone: us | error | FLA us | error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        its = " | ".join(cells(row["contenders"].get(name, {})) for name in names)
        lines.append(f"| {row['B']} | {row['H']} | {row['T']} | {its} |")
    return "\n".join(lines) + "\n"


def write(folder: pathlib.Path, document: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "original_fla.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "original_fla.md").write_text(table_of(document))


def options(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--suite", choices=("local", "peer", "both"), default="both")
    parser.add_argument("--sizes", type=int, default=len(SIZES), help="the first so many")
    parser.add_argument("--seconds", type=float, default=200, help="no size starts after these")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder")
    parser.add_argument("--kda-bench", default="kda-bench", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Optional[list[str]] = None) -> int:
    asked = options(arguments)
    torch = torch_with_gpu()
    if torch is None:
        return 0
    started = time.monotonic()
    found, missing = contenders_of(torch, asked.suite)
    for name, why in missing.items():
        print(f"{name} skipped: {why}")
    document = {
        **provenance.of_run(torch, asked.kda_bench, "compare.sh original"),
        "truth": "the token recurrence in f64",
        "missing": missing,
        "rows": [],
    }
    # FLA compiles for minutes when cold: what is ours is known before.
    alone = [contender for contender in found if contender.name != "fla"]
    for contenders in [alone, found] if alone and len(found) > len(alone) else [found]:
        if contenders is found and len(found) > len(alone):
            fla_choices.tune_quickly()
        for i, size in enumerate(SIZES[: asked.sizes]):
            if time.monotonic() - started > asked.seconds:
                print(f"B, H, T = {size} and what follows: no time left")
                break
            row = row_of(torch, size, contenders)
            document["rows"][i : i + 1] = [row]
            print("\n".join(text_of(row)), flush=True)
            write(asked.out, document)
            torch.cuda.empty_cache()
    return 0 if document["rows"] else 1


if __name__ == "__main__":
    sys.exit(main())
