"""A small inference engine on one KDA layer: continuous batching over a pool of states.

    python3 tools/examples/engine.py [--requests 24] [--seed 0]

Requests come at random with prompts of random lengths, some of which begin with what another prompt
began with.  Every step packs the next decode token of each running request beside the prompts that
join, in one call.  The states live in slots of a pool:
  * a request has a slot of its own, from its prompt to its last token;
  * a prompt leaves checkpoints, and a later prompt with the same beginning starts from the longest;
  * decode of the running requests alone is a CUDA graph of a fixed batch, padded with slot -1.
At the end every output is compared with that of the request run alone, in one call, from nothing.

Without a GPU it compiles the plans for an H200 instead and says so.
"""

import argparse
import dataclasses
import random
import sys

import kda

H, HV, D = 4, 4, 128
CHECKPOINT = 64  # tokens between states that are kept
BATCH = 8  # requests that run at once
STEP_TOKENS = 512  # of prompts, at most, in a step
SLOTS = 64


def without_a_gpu(why):
    common = {"heads": H, "value_heads": HV, "initial_state": True, "final_state": True,
              "state_pool": True}  # fmt: skip
    plans = kda.Plan.make_all(
        [
            kda.Problem(**common, max_tokens=STEP_TOKENS + BATCH, max_sequences=BATCH, varlen=True,
                        checkpoint_tokens=CHECKPOINT, mixed_lengths=True),
            kda.Problem(**common, max_tokens=BATCH, max_sequences=BATCH, zero_padding=True),
        ],
        kda.Options(target="h200"),
    )  # fmt: skip
    for plan in plans:
        if isinstance(plan, kda.Error):
            raise plan
        print(plan.describe())
    print(f"engine: compiled for an H200 and not run: {why}")


@dataclasses.dataclass
class Request:
    tokens: list  # ids of the prompt and of what is decoded after it (given, not sampled)
    prompt: int  # how many of them are the prompt
    slot: int = -1
    done: int = 0  # tokens that the state in its slot has seen
    reused: int = 0  # of these, from a checkpoint
    outputs: list = dataclasses.field(default_factory=list)  # o of each token past `reused`


def random_requests(count, rng):
    heads = [[rng.randrange(1000) for _ in range(200)] for _ in range(3)]
    made = []
    for _ in range(count):
        shared = rng.choice(heads)[: rng.choice([0, 100, 200])]
        own = [rng.randrange(1000) for _ in range(rng.randint(1, 150))]
        decoded = [rng.randrange(1000) for _ in range(rng.randint(1, 20))]
        made.append(Request(shared + own + decoded, len(shared) + len(own)))
    return made


class Layer:
    """Embeddings of 1000 ids and the projections of one layer; random, in bfloat16."""

    def __init__(self, torch):
        from kda.torch import chunk_kda, paged_kda

        self.torch, self._whole, self._paged = torch, chunk_kda, paged_kda
        maker = torch.Generator("cuda").manual_seed(1)
        widths = {"q": (H, D), "k": (H, D), "v": (HV, D), "g": (HV, D), "beta": (HV,)}
        self.tables = {
            name: torch.randn(1000, *w, generator=maker, device="cuda").bfloat16()
            for name, w in widths.items()
        }
        self.words = {
            "A_log": torch.randn(HV, generator=maker, device="cuda"),
            "dt_bias": torch.randn(HV * D, generator=maker, device="cuda"),
            "lower_bound": -5.0,
            "use_gate_in_kernel": True,
            "use_beta_sigmoid_in_kernel": True,
            "use_qk_l2norm_in_kernel": True,
            "state_v_first": True,
        }

    def inputs(self, ids):
        """Of token ids [B, T] on the device."""
        return {name: table[ids] for name, table in self.tables.items()}

    def alone(self, request):
        """o of all tokens of one request, by one call."""
        ids = self.torch.tensor([request.tokens], device="cuda")
        return self._whole(**self.inputs(ids), **self.words)[0][0]

    def paged(self, ids, pool, slots, **more):
        return self._paged(**self.inputs(ids), **self.words, state_pool=pool,
                           ssm_state_indices=slots, **more)  # fmt: skip


class Engine:
    def __init__(self, torch):
        self.torch = torch
        self.layer = Layer(torch)
        # Poisoned: a state that is read before it was written would show.
        self.pool = torch.full((SLOTS, HV, D, D), 1e30, device="cuda")
        self.free = list(range(SLOTS))
        self.prefixes = {}  # tuple of ids -> slot of the state after them, oldest first
        self.running = []
        self.graph = None
        self.counts = {"steps": 0, "graph replays": 0, "tokens reused": 0}

    def _slot(self):
        if not self.free:  # the oldest checkpoint goes
            self.free.append(self.prefixes.pop(next(iter(self.prefixes))))
        return self.free.pop()

    def _longest_prefix(self, request):
        """Of the prompt but for its last token, whose output is wanted."""
        for length in range((request.prompt - 1) // CHECKPOINT * CHECKPOINT, 0, -CHECKPOINT):
            key = tuple(request.tokens[:length])
            if key in self.prefixes:
                self.prefixes[key] = self.prefixes.pop(key)  # the newest now
                return length, self.prefixes[key]
        return 0, -1

    def step(self, waiting):
        """Decodes a token of each running request; prompts join while there is room."""
        parts = [(r, r.done, r.done + 1, r.slot, {}) for r in self.running]
        room = STEP_TOKENS
        pinned = []  # checkpoints that this step starts from must survive it
        while waiting and len(parts) < BATCH:
            r = waiting[0]
            length, start = self._longest_prefix(r)
            if r.prompt - length > room and room < STEP_TOKENS:
                break
            waiting.pop(0)
            room -= r.prompt - length
            if start >= 0:
                key = tuple(r.tokens[:length])
                pinned.append((key, self.prefixes.pop(key)))
            r.slot, r.reused, r.done = self._slot(), length, length
            self.counts["tokens reused"] += length
            kept = {}
            first = length // CHECKPOINT + 1
            for j in range(first, r.prompt // CHECKPOINT + 1):
                key = tuple(r.tokens[: j * CHECKPOINT])
                if key not in self.prefixes and all(key != k for k, _ in pinned):
                    kept[j - first] = (key, self._slot())
            for key, slot in kept.values():
                pinned.append((key, slot))
            self.running.append(r)
            parts.append((r, length, r.prompt, start, kept))
        if not parts:  # nothing has come yet
            return
        self.counts["steps"] += 1
        if all(b - a == 1 and not kept and start == r.slot for r, a, b, start, kept in parts):
            outputs = self._decode([r for r, *_ in parts])
        else:
            outputs = self._mixed(parts)
        self.prefixes.update(pinned)
        at = 0
        for r, a, b, *_ in parts:
            r.outputs.append(outputs[at : at + b - a])
            at += b - a
            r.done = b
            if r.done == len(r.tokens):
                self.free.append(r.slot)
        self.running = [r for r in self.running if r.done < len(r.tokens)]

    def _mixed(self, parts):
        """One packed call: sequence n is the tokens [a, b) of its request."""
        torch = self.torch
        ids = [t for r, a, b, *_ in parts for t in r.tokens[a:b]]
        ends = [0]
        for _, a, b, *_ in parts:
            ends.append(ends[-1] + b - a)
        columns = max([max(kept) + 1 for *_, kept in parts if kept], default=1)
        kept = [[p[-1].get(j, (None, -1))[1] for j in range(columns)] for p in parts]

        def on_device(values):
            return torch.tensor(values, device="cuda")

        o = self.layer.paged(
            on_device([ids]), self.pool, on_device([p[0].slot for p in parts]),
            initial_state_indices=on_device([p[3] for p in parts]), cu_seqlens=on_device(ends),
            checkpoint_indices=on_device(kept), checkpoint_tokens=CHECKPOINT, mixed_lengths=True,
        )  # fmt: skip
        return o[0]

    def _decode(self, requests):
        """A token of each, by a CUDA graph of BATCH rows: the rest is padding."""
        torch = self.torch
        if self.graph is None:
            self.ids = torch.zeros(BATCH, 1, dtype=torch.long, device="cuda")
            self.slots = torch.full((BATCH,), -1, dtype=torch.int32, device="cuda")
            self.layer.paged(self.ids, self.pool, self.slots)  # makes the plan; all padding
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.o = self.layer.paged(self.ids, self.pool, self.slots)
        self.counts["graph replays"] += 1
        pad = BATCH - len(requests)
        self.ids.copy_(torch.tensor([[r.tokens[r.done]] for r in requests] + [[0]] * pad))
        self.slots.copy_(torch.tensor([r.slot for r in requests] + [-1] * pad))
        self.graph.replay()
        return self.o[: len(requests), 0].clone()


def serve(engine, requests, rng):
    """All of them to their ends, as they come."""
    waiting, coming = [], list(requests)
    while coming or waiting or engine.running:
        for _ in range(rng.randint(0, 3)):
            if coming:
                waiting.append(coming.pop(0))
        engine.step(waiting)


def main():
    parser = argparse.ArgumentParser(description="continuous batching on one KDA layer")
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    try:
        import torch
    except ImportError:
        return without_a_gpu("torch is not installed")
    if not torch.cuda.is_available():
        return without_a_gpu("no GPU")

    rng = random.Random(asked.seed)
    requests = random_requests(asked.requests, rng)
    with torch.inference_mode():
        engine = Engine(torch)
        serve(engine, requests, rng)
        worst = 0.0
        for number, r in enumerate(requests):
            want = engine.layer.alone(r)[r.reused :].float()
            found = torch.cat(r.outputs).float()
            assert found.shape == want.shape, (number, found.shape, want.shape)
            difference = ((found - want).norm() / want.norm()).item()
            worst = max(worst, difference)
            if not difference < 0.01:
                sys.exit(f"engine: request {number} differs by {difference:.1e} from its own run")
    tokens = sum(len(r.tokens) for r in requests)
    words = ", ".join(f"{count} {name}" for name, count in engine.counts.items())
    print(f"engine: {len(requests)} requests of {tokens} tokens, {words}")
    print(f"engine: outputs agree with one-at-a-time runs, to {worst:.1e} relative")


if __name__ == "__main__":
    main()
