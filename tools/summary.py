#!/usr/bin/env python3
"""Fills the tables of tools/results/summary.md from the results beside it.

    tools/summary.py            writes them
    tools/summary.py --check    fails where one is not what its results say

Above each table of summary.md a comment says what it is of:

    <!-- h200/packs by strategy -->

is a row for each problem of tools/results/h200/packs.json and a column of GPU microseconds for each
strategy that was asked for.  `by regime` and `by tuning` do so, too, and `by contender`, of what
tools/peers wrote, whose cells span all regimes.  `of T=8192 H=32` keeps the problems that begin so,
and `with bar goal ...` adds columns:

    bar, goal   the times of src/reference/cases.cpp
    fla         FLA's time over ours, the least of a row
    floor       GPU time over that of moving inputs, outputs and states once, the most of a row
    token       nanoseconds a token
    workspace   bytes a token

Whatever stands between the comment and the next empty line is the table.
"""

import json
import pathlib
import re
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
DIRECTIVE = re.compile(
    r"<!-- (?P<file>\S+) by (?P<key>regime|strategy|tuning|contender)"
    r"(?: of (?P<of>[^>]*?))?(?: with (?P<extra>[a-z ]+?))? -->"
)


def cells(document, key):
    """(row's name, column's name, microseconds or None, the row it came from) for each time."""
    if isinstance(document, dict):
        for row in document["rows"]:
            for name, run in row["contenders"].items():
                yield row["case"], name, run.get("us"), row
        return
    names = {
        "regime": lambda row: row["regime"],
        "strategy": lambda row: row["wanted_strategy"] or row["strategy"],
        "tuning": lambda row: row["wanted_tuning"] or "default",
    }
    regimes = {row["regime"] for row in document}
    for row in document:
        name = row["problem"]
        if key != "regime" and len(regimes) > 1:
            name += f", {row['regime']}"
        yield name, names[key](row), row.get("gpu_us", {}).get("median"), row


def values(rows, field):
    return [row[field] for row in rows if row.get(field) is not None]


def target(field):
    """The time of cases.cpp that each row says it takes so many times of."""

    def time(rows):
        times = [row["gpu_us"]["median"] / row[field] for row in rows if row.get(field) is not None]
        return f"{times[0]:.0f}" if times else "-"

    return time


def beside_fla(rows):
    both = [row["contenders"] for row in rows if "contenders" in row]
    times = [each["fla"]["us"] / each["ours"]["us"] for each in both if each["fla"].get("us")]
    times += values(rows, "fla_over_ours")
    return f"{min(times):.1f}" if times else "-"


def over_floor(rows):
    times = values(rows, "times_floor")
    return f"{max(times):.2f}" if times else "-"


def one(field, form):
    return lambda rows: format(rows[0][field], form)


EXTRA = {
    "bar": ("bar", target("ours_over_bar")),
    "goal": ("goal", target("ours_over_goal")),
    "fla": ("FLA / ours", beside_fla),
    "floor": ("times the floor", over_floor),
    "token": ("ns a token", one("ns_per_token", ".2f")),
    "workspace": ("workspace, bytes a token", one("workspace_bytes_per_token", ".0f")),
}


def microseconds(times):
    """One time, or the least and the most of several that do not read alike."""
    texts = [f"{time:.0f}" if time >= 99.95 else f"{time:.1f}" for time in sorted(times)]
    return " to ".join(dict.fromkeys([texts[0], texts[-1]])) if texts else "-"


def table(file, key, of=None, extra=None):
    """The lines of one table."""
    path = RESULTS / f"{file}.json"
    if not path.is_file():
        sys.exit(f"summary.md: there is no {path}")
    found = list(cells(json.loads(path.read_text()), key))
    found = [cell for cell in found if cell[0].startswith(of or "")]
    if not found:
        sys.exit(f"summary.md: {file}.json has no problem that begins with {of!r}")
    names = list(dict.fromkeys(name for name, *_ in found))
    columns = list(dict.fromkeys(column for _, column, *_ in found))
    words = (extra or "").split()
    for word in words:
        if word not in EXTRA:
            sys.exit(f"summary.md: no such column: {word} (there are {', '.join(EXTRA)})")
    extras = [EXTRA[word] for word in words]
    heads = [f"us, {column}" if column not in ("ours", "fla") else column for column in columns]
    if len(columns) == 1:
        heads = ["us"]
    lines = [
        "| | " + " | ".join(heads + [head for head, _ in extras]) + " |",
        "|---|" + "---|" * (len(heads) + len(extras)),
    ]
    for name in names:
        mine = [cell[1:] for cell in found if cell[0] == name]
        rows = [row for *_, row in mine]
        texts = [
            microseconds([time for each, time, _ in mine if each == column and time])
            for column in columns
        ]
        texts += [value(rows) for _, value in extras]
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return lines


def filled(text):
    """The text with every table made anew."""
    lines, made = text.split("\n"), []
    while lines:
        line = lines.pop(0)
        made.append(line)
        if not line.startswith("<!--"):
            continue
        directive = DIRECTIVE.fullmatch(line)
        if not directive:
            sys.exit(f"summary.md: no such table: {line}")
        while lines and lines[0]:
            lines.pop(0)
        made += table(directive["file"], directive["key"], directive["of"], directive["extra"])
    return "\n".join(made)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    path = RESULTS / "summary.md"
    text = path.read_text()
    made = filled(text)
    if arguments and made != text:
        sys.exit("summary.md is not what its results say: run tools/summary.py")
    path.write_text(made)


if __name__ == "__main__":
    main(sys.argv[1:])
