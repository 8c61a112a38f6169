"""Where a comparison's numbers come from."""

from __future__ import annotations

import datetime
import os
import shlex
import subprocess
import sys

import fla_choices

# What decides which kernels run besides the words, as in tools/cli/command_line.cpp.
_DECIDING = (
    "KDA_WISDOM_DIR",
    "KDA_WISDOM_PATH",
    "KDA_TUNE",
    "KDA_KEEP_GRAPHS",
    "NVRTC_APPEND_FLAGS",
)
_OF_THIS_MACHINE = ("--kda-bench", "--out")  # and the words that follow them


def command_of(program: str, words: list[str]) -> str:
    """The program and what it was asked, without the places that compare.sh gives it."""
    variables = [
        f"{name}={shlex.quote(os.environ[name])}" for name in _DECIDING if os.environ.get(name)
    ]
    asked = [
        word
        for before, word in zip(["", *words], words)
        if word not in _OF_THIS_MACHINE and before not in _OF_THIS_MACHINE
    ]
    return " ".join([*variables, program, *asked])


def of_run(torch, kda_bench: str, program: str) -> dict[str, str]:
    """Machine, versions, date, commit and command; kda_bench is the program that knows the commit."""
    try:
        said = subprocess.run([kda_bench, "--version"], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit(
            f"{kda_bench}: not found; compare.sh builds it, or --kda-bench names it"
        ) from None
    version, commit = said.stdout.split()[:2]
    return {
        "machine": f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
        + ", ".join(f"{name} {version}" for name, version in fla_choices.versions().items()),
        "date": datetime.date.today().isoformat(),
        "version": version,
        "commit": commit,
        "command": command_of(program, sys.argv[1:]),
    }
