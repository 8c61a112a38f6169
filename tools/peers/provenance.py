"""Where a comparison's numbers come from."""

from __future__ import annotations

import datetime
import subprocess
import sys

import fla_choices


def of_run(torch, kda_bench: str, command: str) -> dict[str, str]:
    """Machine, versions, date, commit and command; kda_bench is the program that knows the commit."""
    said = subprocess.run([kda_bench, "--version"], check=True, capture_output=True, text=True)
    version, commit = said.stdout.split()[:2]
    return {
        "machine": f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
        + ", ".join(f"{name} {version}" for name, version in fla_choices.versions().items()),
        "date": datetime.date.today().isoformat(),
        "version": version,
        "commit": commit,
        "command": " ".join([command, *sys.argv[1:]]),
    }
