#!/usr/bin/env python3
"""Asks a question of tools/results again, by this tree: the commands that its rows name.

    tools/measure_again.py h200/packs h200/pools            replaces their .json and .md
    tools/measure_again.py --output DIR h200/packs          writes DIR/h200/packs.json and .md
    tools/measure_again.py --print h200/packs               says what would run

For what kda-bench measured; of what another program did its command is named.  Files are replaced
only by as many rows as they had, each ok where it was, of the device whose folder they lie in.  Then
run tools/summary.py, and write the commit into tools/results/README.md.  KDA_BUILD_DIR: the build
folder, ./build by default.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tools" / "results"
PLACES = ("--json", "--md", "--cache-dir")  # words of the machine that ran a command
# What starts kda-bench itself, once for each of its rows.
BY_OTHERS = {"picks": "tools/experiments/picks.py"}


class Refused(Exception):
    pass


def asked(name):
    """A file's text, rows, and each command that made them: its variables, and words but files."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise Refused(f"there is no {path}")
    rows = json.loads(path.read_text())
    other = BY_OTHERS.get(path.stem)
    if other is None and isinstance(rows, dict):
        other = rows.get("command", "kda-tune (tools/tuning_results.sh)")
    if other is not None:
        raise Refused(f"{name} was made by {other}")
    commands = []
    for command in dict.fromkeys(row["command"] for row in rows):
        words = shlex.split(command)
        begin = words.index("kda-bench")
        variables, words, kept = words[:begin], words[begin + 1 :], []
        while words:
            word = words.pop(0)
            if word in PLACES:
                words.pop(0)
            elif word.split("=")[0] not in PLACES:
                kept.append(word)
        commands.append((variables, kept))
    return rows, commands


def measure(name, commands):
    """The lines of all rows, and those of their table."""
    bench = pathlib.Path(os.environ.get("KDA_BUILD_DIR", ROOT / "build")) / "tools" / "kda-bench"
    lines, table = [], []
    with tempfile.TemporaryDirectory() as folder:
        file, tabled = pathlib.Path(folder) / "rows.json", pathlib.Path(folder) / "rows.md"
        for variables, words in commands:
            environment = {**os.environ, **dict(each.split("=", 1) for each in variables)}
            try:
                done = subprocess.run(
                    [bench, *words, "--json", file, "--md", tabled], env=environment, check=False
                )
            except OSError as why:
                raise Refused(f"{bench}: {why.strerror}; build it, or set KDA_BUILD_DIR") from None
            if done.returncode != 0:
                raise Refused(f"{name}: kda-bench ended with {done.returncode}")
            said = shlex.split(json.loads(file.read_text())[0]["command"])
            if said[: said.index("kda-bench")] != variables:
                raise Refused(f"{name}: it was measured by {variables}, this is {said}; unset them")
            lines += [line.removesuffix(",") for line in file.read_text().splitlines()[1:-1]]
            table += tabled.read_text().splitlines()[2 if table else 0 :]
    return lines, table


def check(name, before, rows):
    """Raises what is in the way of putting `rows` in the place of `before`."""
    if len(rows) != len(before):
        raise Refused(f"{name}: {len(rows)} rows in place of {len(before)}")
    for row, old in zip(rows, before, strict=True):
        if row["status"] != old["status"]:
            raise Refused(f"{name}: {row['problem']} is {row['status']}; it was {old['status']}")
    if rows[0]["device"] != before[0]["device"]:
        raise Refused(f"{name}: this is an {rows[0]['device']}, that was an {before[0]['device']}")
    if rows[0]["commit"].endswith("-dirty"):
        raise Refused(f"{name}: {rows[0]['commit']} belongs to no source; commit, then build")


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--print", action="store_true", dest="only_print")
    options = parser.parse_args(arguments)
    code = 0
    for name in options.names:
        try:
            before, commands = asked(name)
            if options.only_print:
                for variables, words in commands:
                    print(" ".join([*variables, shlex.join(["kda-bench", *words])]))
                continue
            lines, table = measure(name, commands)
            rows = [json.loads(line) for line in lines]
            check(name, before, rows)
        except Refused as why:
            print(why, file=sys.stderr)
            code = 1
            continue
        file = options.output / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("[\n" + ",\n".join(lines) + "\n]\n")
        file.with_suffix(".md").write_text("\n".join(table) + "\n")
        print(f"{name}: {len(rows)} rows of {rows[0]['commit']}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
