#!/usr/bin/env python3
"""Carries shipped wisdom over a change of templates that changes none of its kernels.

    tools/carry_records.py COMMIT [FILE...]     default: src/tune/shipped/*.jsonl

Records count only for the templates that they were measured with.  Where the kernels which a record
names, its winner's, its default's and each strategy's best, are the same machine code from the
templates of COMMIT and from the tree's, it gets the digest of the tree's (kda-tune doctor says it);
where one differs it says so and writes nothing: then measure anew (tools/tuning_results.sh).  What
the host does around them (grids, stages, workspace) is not compared: look at git diff COMMIT src.
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
    return {(device, record["problem"], each["strategy"], each["tuning"]) for each in named}


def sources(device, problem, strategy, tuning):
    """The composed source of each kernel: its macros and the template that they specialise."""
    text = output(TUNE, "dump", problem, "--arch", device, "--strategy", strategy, "--tuning", tuning,
                  "--src", "--quiet").decode()  # fmt: skip
    return re.findall(r'(?:^#define KDA_.*\n)+^#include "sm.*\n', text, re.MULTILINE)


def machine_code(source, templates):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "kernel.cu").write_text(source)
        output("nvcc", "-arch=sm_90a", "-std=c++20", "--expt-relaxed-constexpr", "-I", templates,
               "--cubin", "-o", path / "cubin", path / "kernel.cu")  # fmt: skip
        return hashlib.sha256(output(NVDISASM, "-c", path / "cubin")).hexdigest()


def main(commit, *files):
    files = files or sorted(glob.glob(str(ROOT / "src/tune/shipped/*.jsonl")))
    records = {f: [json.loads(line) for line in open(f)] for f in files}
    # Files are named as targets are: what a device calls itself ("... H100 80GB HBM3") is none.
    asked = {c for f, rows in records.items() for r in rows for c in choices(pathlib.Path(f).stem, r)}
    with tempfile.TemporaryDirectory() as before, concurrent.futures.ThreadPoolExecutor(
        os.cpu_count()
    ) as pool:
        archive = output("git", "-C", ROOT, "archive", commit, "templates")
        subprocess.run(["tar", "x", "-C", before], input=archive, check=True)
        kernels = {s for found in pool.map(lambda a: sources(*a), asked) for s in found}
        if not kernels:
            sys.exit("no kernel was found: is kda-tune of this tree?")
        trees = pathlib.Path(before) / "templates", ROOT / "templates"
        codes = list(pool.map(lambda k: [machine_code(k, tree) for tree in trees], kernels))
    changed = [k for k, (then, now) in zip(kernels, codes) if then != now]
    print(f"{len(kernels)} kernels, {len(changed)} of them changed since {commit}")
    if changed:
        sys.exit("\n".join(changed))
    doctor = subprocess.run([TUNE, "doctor", "-o", "json"], capture_output=True).stdout  # may complain
    digest = re.search(rb"templates ([0-9a-f]{32})", doctor)[1].decode()
    for path, rows in records.items():
        with open(path) as file:
            text = file.read()
        for then in {r["environment"]["templates"] for r in rows}:
            text = text.replace(f'"templates":"{then}"', f'"templates":"{digest}"')
        with open(path, "w") as file:
            file.write(text)
        print(f"{len(rows)} records of {path} are of templates {digest} now")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
