"""tools/python/call_parts.py runs, with a GPU and without, and its limit is one."""

import os
import subprocess
import sys

import pytest
from support import ROOT

pytest.importorskip("torch", reason="torch is not installed")


def call_parts(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "python" / "call_parts.py", "--rounds", "1", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools" / "python")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_every_call_is_taken_apart():
    said = call_parts("--limit", "1e6")
    assert said.returncode == 0, said.stderr
    rows = [line for line in said.stdout.splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == {
        "chunk_kda", "fused_recurrent_kda", "fused_recurrent_kda_fwd", "Plan.run",
    }  # fmt: skip


def test_too_much_python_is_an_error():
    said = call_parts("--limit", "0.1")
    # Of which calls depends on what else the machine does: one round's differences may be nothing.
    assert said.returncode == 1 and "more Python than 0.1 us: " in said.stderr
