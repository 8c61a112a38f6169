"""What a kernel's warps wait for, part by part, of what Nsight Compute samples:

    ncu --section SourceCounters -k regex:forward -o /tmp/h64 kda-bench h64 --profile
    ncu -i /tmp/h64.ncu-rep --page source --csv > h64.csv
    python3 stalls.py h64.csv [--least PERCENT] [--lines FIRST LAST]

A part is a run of instructions that were executed as often as each other: a loop's turn, a branch.
Of each: its instructions by number, how often they ran, its share of all samples in percent, and of
what.  --lines: these instructions one by one, with the share of each.
"""

import argparse
import collections
import csv


class Instruction:
    def __init__(self, names, row):
        at = dict(zip(names, row))
        self.text = at["Source"].strip()
        self.runs = int(at["Instructions Executed"] or 0)
        self.samples = int(at["# Samples"] or 0)
        self.reasons = collections.Counter(
            {
                name.removeprefix("stall_"): int(count)
                for name, count in at.items()
                if name.startswith("stall_") and "Not Issued" not in name and int(count or 0)
            }
        )


def read(path):
    """The first kernel's instructions; none of a file that is no such table."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = iter(csv.reader(file))
        names = next((row for row in rows if {"Source", "# Samples"} <= set(row)), [])
        instructions = []
        for row in rows:
            if len(row) != len(names):  # the next kernel's name
                break
            instructions.append(Instruction(names, row))
        return instructions


def parts(instructions):
    """Pairs of a part's first number and its instructions."""
    found = []
    for number, instruction in enumerate(instructions):
        if found and found[-1][1][-1].runs == instruction.runs:
            found[-1][1].append(instruction)
        else:
            found.append((number, [instruction]))
    return found


def percent(reasons, samples, least):
    shares = [(100 * count / samples, name) for name, count in reasons.items()]
    digits = 1 if least >= 0.1 else 2
    return "  ".join(
        f"{name} {share:.{digits}f}" for share, name in sorted(shares)[::-1] if share >= least
    )


def lines_of_parts(instructions, least):
    samples = sum(each.samples for each in instructions)
    for first, part in parts(instructions):
        share = 100 * sum(each.samples for each in part) / samples
        if share >= least:
            reasons = sum((each.reasons for each in part), collections.Counter())
            yield (
                f"{first:5} to {first + len(part) - 1:5}  {part[0].runs:9} times  {share:5.1f}  "
                + percent(reasons, samples, least / 4)
            )


def lines_of_instructions(instructions, first, last):
    samples = sum(each.samples for each in instructions)
    for number, each in list(enumerate(instructions))[first : last + 1]:
        share = 100 * each.samples / samples
        yield f"{number:5}  {share:5.2f}  {each.text:60}  {percent(each.reasons, samples, 0.05)}"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("csv")
    parser.add_argument("--least", type=float, default=0.4, help="percent of all samples")
    parser.add_argument("--lines", type=int, nargs=2, metavar=("FIRST", "LAST"))
    given = parser.parse_args(arguments)
    instructions = read(given.csv)
    if not any(each.samples for each in instructions):
        parser.error(f"{given.csv}: no samples; want --section SourceCounters and --page source")
    if given.lines:
        lines = lines_of_instructions(instructions, *given.lines)
    else:
        lines = lines_of_parts(instructions, given.least)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
