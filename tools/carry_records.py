#!/usr/bin/env python3
"""Carries shipped wisdom over a change of templates that changes none of its kernels.

    tools/carry_records.py COMMIT [--of DIGEST] [FILE...]     default: src/tune/shipped/*.jsonl

COMMIT is one by whose templates the records were measured, or carried to.  Of a file that has
records of several templates those of DIGEST are carried, and the others stay.

Records count only for the templates that they were measured with.  Where the kernels of a record's
winner and default are the same machine code from the templates of COMMIT and from the tree's, it
gets the digest of the tree's (kda-tune doctor says it), and loses what it tells of other strategies
whose kernels changed.  Where winner or default differ it stays another build's, which plans say of
it, and is named: then measure anew (tools/tuning_results.sh).  What the host does around them
(grids, stages, workspace) is not compared: look at git diff COMMIT src.
Of 9.0 devices.  Needs nvcc, nvdisasm (NVDISASM) and a kda-tune of the tree (KDA_BUILD_DIR, ./build).
"""

import concurrent.futures
import glob
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUNE = pathlib.Path(os.environ.get("KDA_BUILD_DIR", ROOT / "build")) / "tools" / "kda-tune"
NVDISASM = os.environ.get("NVDISASM", "nvdisasm")


def output(*command):
    done = subprocess.run([str(x) for x in command], capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr.decode()[-2000:]}")
    return done.stdout


def choices(device, record):
    """Every (device, problem, strategy, tuning) that a record of the device names."""
    if record["environment"]["capability"] != "9.0":
        sys.exit(f"{device}: only records of 9.0 devices are carried")
    named = [record, record["default"], *record["by_strategy"]]
    return {choice(device, record, each) for each in named}


def choice(device, record, each):
    return device, record["problem"], each["strategy"], each["tuning"]


def sources(device, problem, strategy, tuning):
    """The composed source of each kernel: its macros and the template that they specialise."""
    text = output(TUNE, "dump", problem, "--arch", device, "--strategy", strategy, "--tuning", tuning,
                  "--src", "--quiet").decode()  # fmt: skip
    return re.findall(r'(?:^#define KDA_.*\n)+^#include "sm.*\n', text, re.MULTILINE)


def machine_code(source, templates, or_none=False):
    """Its digest.  or_none: None where it does not compile, as templates before knew less."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "kernel.cu").write_text(source)
        command = ["nvcc", "-arch=sm_90a", "-std=c++20", "--expt-relaxed-constexpr", "-I", templates,
                   "--cubin", "-o", path / "cubin", path / "kernel.cu"]  # fmt: skip
        if or_none and subprocess.run(command, capture_output=True).returncode != 0:
            return None
        if not or_none:
            output(*command)
        return hashlib.sha256(output(NVDISASM, "-c", path / "cubin")).hexdigest()


def without(text, dropped):
    """A record's line without those of its strategies, the rest of it to the byte."""
    opening = '"by_strategy":['
    at = text.index(opening) + len(opening)
    kept = []
    while text[at] != "]":
        at += text[at] == ","
        entry, end = json.JSONDecoder().raw_decode(text, at)
        if (entry["strategy"], entry["tuning"]) not in dropped:
            kept.append(text[at:end])
        at = end
    return text[: text.index(opening) + len(opening)] + ",".join(kept) + text[at:]


def carried(text, record, digest):
    """A record's line of a file, of the templates of that digest."""
    return text.replace(f'"templates":"{record["environment"]["templates"]}"', f'"templates":"{digest}"')


def of_one_build(path, records, digest):
    """Whether each record is one of those that COMMIT's templates are said to have made."""
    digests = sorted({record["environment"]["templates"] for record in records})
    if digest is None and len(digests) > 1:
        sys.exit(f"{path} has records of templates {', '.join(digests)}: --of says which are COMMIT's")
    return [digest in (None, record["environment"]["templates"]) for record in records]


def main(commit, *files, of=None):
    files = files or sorted(glob.glob(str(ROOT / "src/tune/shipped/*.jsonl")))
    lines = {f: pathlib.Path(f).read_text().splitlines(keepends=True) for f in files}
    # Files are named as targets are: what a device calls itself ("... H100 80GB HBM3") is none.
    records = {f: [json.loads(line) for line in rows] for f, rows in lines.items()}
    counted = {f: of_one_build(f, rows, of) for f, rows in records.items()}
    asked = {
        (f, i): choices(pathlib.Path(f).stem, record)
        for f, rows in records.items()
        for i, record in enumerate(rows)
        if counted[f][i]
    }
    with tempfile.TemporaryDirectory() as before, concurrent.futures.ThreadPoolExecutor(
        os.cpu_count()
    ) as pool:
        archive = output("git", "-C", ROOT, "archive", commit, "templates")
        subprocess.run(["tar", "x", "-C", before], input=archive, check=True)
        each = sorted({one for found in asked.values() for one in found})
        kernels = dict(zip(each, pool.map(lambda a: sources(*a), each)))
        every = sorted({kernel for found in kernels.values() for kernel in found})
        for which, found in kernels.items():
            if not found:
                sys.exit(f"no kernel was found of {which}: is kda-tune of this tree?")
        then = pathlib.Path(before) / "templates"
        now = ROOT / "templates"
        codes = pool.map(lambda k: (machine_code(k, then, True), machine_code(k, now)), every)
        changed = {k for k, (then, now) in zip(every, codes) if then != now}
    print(f"{len(every)} kernels, {len(changed)} of them changed since {commit}")
    doctor = subprocess.run([TUNE, "doctor", "-o", "json"], capture_output=True).stdout  # may complain
    digest = re.search(rb"templates ([0-9a-f]{32})", doctor)[1].decode()
    for path, rows in lines.items():
        count = 0
        for i, line in enumerate(rows):
            if not counted[path][i]:
                continue
            record = records[path][i]
            others = {c for c in asked[path, i] if changed & set(kernels[c])}
            if others & {choice(pathlib.Path(path).stem, record, e) for e in (record, record["default"])}:
                print(f"not {record['problem']}: changed are", *sorted({c[2] for c in others}))
                continue
            if others:
                print(f"{record['problem']}: without", *sorted({c[2] for c in others}))
            rows[i] = carried(without(line, {c[2:] for c in others}), record, digest)
            count += 1
        pathlib.Path(path).write_text("".join(rows))
        print(f"{count} of {len(rows)} records of {path} are of templates {digest} now")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    words = sys.argv[1:]
    of = None
    if "--of" in words:
        at = words.index("--of")
        of = words[at + 1] if at + 1 < len(words) else sys.exit("--of wants a digest of templates")
        del words[at : at + 2]
    main(*words, of=of)
