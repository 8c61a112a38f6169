"""What teams and walks of a pair (strategy `fused`) wait for, by a model of it: python3 pairs.py

Two blocks; four teams of each make every second chunk in turn, a walk of each takes all chunks in
order.  Clocks are those of h64 on an H200 by samples (tools/results/log/fused.md): a team's time
before it writes to its image, to the end of rows, and to the end; a walk's until it wants what
follows the rows, until it lets the image go, and until the next chunk.  Each varies by `jitter`.
Teams and walks take as long whatever the others do, which on a multiprocessor they do not.
"""

import argparse
import dataclasses
import random

BLOCKS = 2
TEAMS = 4


@dataclasses.dataclass
class Model:
    jitter: float = 0.11
    before: float = 2560
    rows: float = 8280
    rest: float = 3430
    reads: float = 480
    writes: float = 300
    between: float = 714
    rows_on_the_way: float = 1445
    rest_on_the_way: float = 1100
    said_on_the_way: float = 300
    images: int = 4  # of a block, that its teams take in turn
    slots: int = 2  # for the other block's
    rows_apart: bool = True  # a walk begins with rows, and waits for the rest when it wants it
    piece: int = 0  # chunks; 0: all are one
    change: float = 4000  # of a walk, from piece to piece

    def run(self, chunks=6000, seed=1):
        """Clocks a chunk, and the shares of a walk's and a team's time that are waits."""
        random_ = random.Random(seed)

        def takes(clocks):
            return clocks * max(0.5, random_.gauss(1, self.jitter))

        team_is_free = [[0.0] * TEAMS for _ in range(BLOCKS)]
        walk_is_free = [0.0] * BLOCKS
        let_go = [[0.0] * chunks for _ in range(BLOCKS)]
        walk_waited = team_waited = 0.0

        def gone(chunk, block):  # as the maker learns it
            return let_go[block][chunk] + (self.said_on_the_way if block != chunk % BLOCKS else 0)

        for chunk in range(chunks):
            maker, own = chunk % BLOCKS, chunk // BLOCKS
            other = 1 - maker
            at = team_is_free[maker][own % TEAMS] + takes(self.before)
            last = chunk - BLOCKS * self.images
            if last >= 0:
                free = max(gone(last, maker), gone(last, other))
                team_waited += max(free - at, 0)
                at = max(free, at)
            rows = at + takes(self.rows)
            made = rows + takes(self.rest)
            push = rows + 750  # when the next chunk's place and beta are known
            in_slot = chunk - BLOCKS * self.slots
            if in_slot >= 0 and gone(in_slot, other) > push:
                push = gone(in_slot, other)
                made = max(made, push + 0.55 * self.rest)
            team_is_free[maker][own % TEAMS] = made
            rows_there = push + self.rows_on_the_way
            all_there = max(made + self.rest_on_the_way, rows_there)
            for block in range(BLOCKS):
                has_rows, has_all = (rows, made) if block == maker else (rows_there, all_there)
                wants = has_rows if self.rows_apart else has_all
                begin = max(walk_is_free[block], wants)
                then = max(begin + self.reads, has_all)
                walk_waited += begin - walk_is_free[block] + then - begin - self.reads
                let_go[block][chunk] = then + self.writes
                walk_is_free[block] = let_go[block][chunk] + self.between
                if self.piece and chunk % self.piece == self.piece - 1:
                    walk_is_free[block] += self.change
        clocks = max(walk_is_free)
        return clocks / chunks, walk_waited / BLOCKS / clocks, team_waited / BLOCKS / TEAMS / clocks


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    print("clocks a chunk, waits of walks and of teams (for images) in percent")
    for runs, piece in (("one sequence", 0), ("packs of 1024 tokens", 32)):
        for what, changes in (
            ("as it is", {}),
            ("all alike", {"jitter": 0.0}),
            ("told of all at once", {"rows_apart": False}),
            ("a fifth image", {"images": 5}),
            ("walks 100 clocks faster", {"between": 614}),
            ("teams 2% faster", {"before": 2509, "rows": 8114, "rest": 3361}),
        ):
            clocks, walk, team = Model(piece=piece, **changes).run()
            print(f"{runs:20}  {what:24} {clocks:5.0f}  {100 * walk:4.1f}  {100 * team:4.1f}")


if __name__ == "__main__":
    main()
